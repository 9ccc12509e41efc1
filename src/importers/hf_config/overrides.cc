#include "importers/hf_config/overrides.h"

#include <fmt/format.h>

#include <algorithm>

#include "importers/hf_config/json_tree.h"
#include "strategy/field.h"

namespace plimsoll {
namespace {

ConfigValue& member(ConfigValue::Object& object, const std::string& key) {
  const auto found = std::ranges::find(object, key, &ConfigMember::key);
  if (found != object.end()) return found->value;
  return object.emplace_back(ConfigMember{.key = key}).value;
}

Result<ConfigValue> value_of(const std::string& key, const std::string& json) {
  Result<ConfigValue::Object> object = parse_json_object("{\"value\": " + json + "}", "");
  if (object && object->size() == 1) return std::move(object->front().value);
  return fail({.position = {.file = std::string(kOverridesPath), .key = key},
               .message = fmt::format("{} isn't JSON", shown_text(json)),
               .expected = "a value as config.json would have it"});
}

// Whether the key is new.
Result<bool> apply_one(ConfigValue::Object& config, const std::string& key, ConfigValue value) {
  ConfigValue::Object* object = &config;
  size_t begin = 0;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
    ConfigValue& inner = member(*object, key.substr(begin, dot - begin));
    if (inner.is_null()) inner.value = ConfigValue::Object{};
    object = std::get_if<ConfigValue::Object>(&inner.value);
    if (object == nullptr)
      return fail(
          {.position = {.file = std::string(kOverridesPath), .key = key},
           .message = fmt::format("{} is no object in the configuration", shown_text(key.substr(0, dot)))});
    begin = dot + 1;
  }
  const size_t before = object->size();
  member(*object, key.substr(begin)) = std::move(value);
  return object->size() > before;
}

}  // namespace

Result<std::vector<std::string>> apply_overrides(ConfigValue::Object& config,
                                                 const ConfigOverrides& overrides) {
  std::vector<std::string> added;
  for (const auto& [key, json] : overrides) {
    PLIMSOLL_TRY(value, value_of(key, json));
    PLIMSOLL_TRY(is_new, apply_one(config, key, std::move(value)));
    if (is_new) added.push_back(key);
  }
  return added;
}

}  // namespace plimsoll
