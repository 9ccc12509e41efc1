// The writer of job files: `to_toml` of strategy/job_file.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>
#include <nlohmann/json.hpp>

#include "strategy/field.h"
#include "strategy/job_file.h"
#include "strategy/toml_text.h"

namespace plimsoll {
namespace {

std::string list_text(const std::vector<std::string>& list) {
  std::vector<std::string> quoted;
  for (const std::string& text : list) quoted.push_back(quoted_toml(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string value_text(const Field& field, const FieldValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return toml_number(*number);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return list_text(*list);
  const std::string text = to_plain_text(value);
  const bool is_flag_choice = field.kind == FieldKind::kChoice && (text == "true" || text == "false");
  return std::holds_alternative<std::string>(value) && !is_flag_choice ? quoted_toml(text) : text;
}

std::string json_as_toml(const nlohmann::json& json) {
  if (json.is_null()) return "\"null\"";
  if (json.is_string()) return quoted_toml(json.get_ref<const std::string&>());
  if (json.is_number_float()) return toml_number(json.get<double>());
  std::vector<std::string> parts;
  if (json.is_array()) {
    for (const auto& item : json) parts.push_back(json_as_toml(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  if (json.is_object()) {
    for (const auto& [key, item] : json.items())
      parts.push_back(fmt::format("{} = {}", toml_key(key), json_as_toml(item)));
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  return json.dump();  // booleans and integers
}

std::string overrides_text(const Job& job) {
  std::string text;
  for (const auto& [key, json_text] : job.model.overrides) {
    const auto json = nlohmann::json::parse(json_text, nullptr, /*allow_exceptions=*/false);
    assert(!json.is_discarded() && "an override is not JSON");
    text += fmt::format("overrides.{} = {}\n", toml_key(key), json_as_toml(json));
  }
  return text;
}

bool is_written(const Field& field, const Job& job, const Job& fresh) {
  return job.given.contains(std::string(field.text.path)) || field.get(job) != field.get(fresh);
}

std::string section_text(std::string_view section, const Job& job) {
  const Job fresh;
  std::string text;
  for (const Field& field : job_fields()) {
    if (field.section() != section || !is_written(field, job, fresh)) continue;
    if (const auto value = field.get(job))
      text += fmt::format("{} = {}\n", field.key(), value_text(field, *value));
  }
  if (section == "model") text += overrides_text(job);
  if (text.empty() || section.empty()) return text;
  return fmt::format("\n[{}]\n{}", section, text);
}

}  // namespace

std::string to_toml(const Job& job) {
  std::string text;
  std::string_view last = "\n";  // no section has this name
  for (const Field& field : job_fields()) {
    if (field.section() == last) continue;
    last = field.section();
    text += section_text(last, job);
  }
  return text.starts_with('\n') ? text.substr(1) : text;
}

}  // namespace plimsoll
