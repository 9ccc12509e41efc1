#include "train/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/read_file.h"
#include "importers/hf_config/json_tree.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

// "rope_scaling.factor" goes down into rope_scaling.
Json& value_at(Json& config, std::string_view path) {
  Json* at = &config;
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  return (*at)[std::string(path)];
}

void cut_layers(Json& config, const Architecture& a) {
  for (const char* key : {"num_hidden_layers", "n_layer"})
    if (config.contains(key)) config[key] = a.layers.size();
  const auto types = config.find("layer_types");
  if (types == config.end() || !types->is_array()) return;
  while (types->size() > a.layers.size()) types->erase(types->size() - 1);
}

constexpr std::array kSaysNothing{"_name_or_path", "architectures",        "dtype",
                                  "torch_dtype",   "bos_token_id",         "eos_token_id",
                                  "pad_token_id",  "transformers_version", "use_cache"};

// The first key that only one has or that has another value; null counts as absent.
std::optional<std::string> first_difference(const Json& a, const Json& b) {
  for (const auto& [mine, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (const auto& [key, value] : mine->items()) {
      if (std::ranges::find(kSaysNothing, key) != kSaysNothing.end() || value.is_null()) continue;
      const auto found = other->find(key);
      if (found == other->end() || *found != value) return key;
    }
  return std::nullopt;
}

std::string value_text(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  return found == config.end() ? "not there" : found->dump();
}

}  // namespace

Result<std::string> model_config_text(const std::filesystem::path& file, const ConfigOverrides& overrides,
                                      const Architecture& architecture) {
  PLIMSOLL_TRY(text, read_file(file, {.most_bytes = kMaxConfigBytes, .expected = "a model's config.json"}));
  Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    return fail({.position = {.file = file.string()},
                 .message = "changed since the model was read from it",
                 .expected = "a model's config.json"});
  for (const auto& [path, value] : overrides)
    value_at(config, path) = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  cut_layers(config, architecture);
  for (const char* key : {"_name_or_path", "torch_dtype", "quantization_config"}) config.erase(key);
  config["architectures"] = Json::array({architecture.class_name});
  config["model_type"] = architecture.family;
  config["dtype"] = "float32";
  constexpr int kIndent = 2;
  return config.dump(kIndent) + "\n";
}

Result<void> check_same_model(std::string_view saved_text, const std::string& saved_file,
                              std::string_view current_text) {
  const Json saved = Json::parse(saved_text, nullptr, /*allow_exceptions=*/false);
  const Json current = Json::parse(current_text, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object())
    return fail(
        {.position = {.file = saved_file}, .message = "isn't JSON", .expected = "a model's config.json"});
  const std::optional<std::string> key = first_difference(saved, current);
  if (!key) return {};
  return fail({.position = {.file = saved_file, .key = *key},
               .message = fmt::format("is {}: the checkpoint is of another model", value_text(saved, *key)),
               .expected = fmt::format("{}, as the job's model has", value_text(current, *key)),
               .hint = "name another folder in train.checkpoints"});
}

}  // namespace plimsoll
