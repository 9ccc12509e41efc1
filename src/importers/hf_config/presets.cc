#include "importers/hf_config/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "hardware/name_match.h"
#include "model/config_value.h"

namespace plimsoll {
namespace {

std::string near_names(std::string_view name, const std::vector<std::string>& names) {
  const std::vector<std::string> near = close_matches(name, names);
  return near.empty() ? "" : fmt::format("did you mean {}?", fmt::join(near, ", "));
}

}  // namespace

std::vector<ModelPreset> list_presets(const std::filesystem::path& data) {
  std::vector<ModelPreset> presets;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(data / "models", absent)) {
    if (entry.path().extension() != ".json") continue;
    presets.push_back({.name = entry.path().stem().string(), .path = entry.path()});
  }
  std::sort(presets.begin(), presets.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return presets;
}

Result<ModelPreset> find_preset(std::string_view name, const std::filesystem::path& data) {
  std::vector<std::string> names;
  for (const ModelPreset& preset : list_presets(data)) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  return fail({.message = fmt::format("no model is called \"{}\"", shown_text(name)),
               .expected = fmt::format("the path of a config.json, or one of {}", fmt::join(names, ", ")),
               .hint = near_names(name, names)});
}

Result<Architecture> read_preset(std::string_view name, const std::filesystem::path& data,
                                 const HfConfigOptions& options) {
  PLIMSOLL_TRY(preset, find_preset(name, data));
  HfConfigOptions named = options;
  if (named.name.empty()) named.name = preset.name;
  return read_hf_config(preset.path, named);
}

Result<Architecture> read_model(const std::string& preset_or_path, const std::filesystem::path& data,
                                const HfConfigOptions& options) {
  const bool is_path = preset_or_path.find('/') != std::string::npos || preset_or_path.ends_with(".json");
  return is_path ? read_hf_config(preset_or_path, options) : read_preset(preset_or_path, data, options);
}

}  // namespace plimsoll
