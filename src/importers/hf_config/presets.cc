#include "importers/hf_config/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/list_folder.h"
#include "hardware/name_match.h"
#include "model/config_value.h"

namespace plimsoll {
namespace {

constexpr size_t kMostNear = 5;

// Of "meta-llama/Llama-3.1-8B" the last part, as presets are written.
std::string preset_like(std::string_view name) {
  const size_t slash = name.find_last_of('/');
  return normalized_name(slash == std::string_view::npos ? name : name.substr(slash + 1));
}

std::vector<std::string> near_names(std::string_view name, const std::filesystem::path& data) {
  std::vector<std::string> names;
  for (const ModelPreset& preset : list_presets(data)) names.push_back(preset.name);
  const std::string wanted = preset_like(name);
  if (std::ranges::find(names, wanted) != names.end()) return {wanted};
  std::vector<std::string> near = close_matches(wanted, names);
  if (near.size() > kMostNear) near.resize(kMostNear);
  return near;
}

std::string near_hint(const std::vector<std::string>& near) {
  const std::string list = "`plimsoll models` lists the presets";
  return near.empty() ? list : fmt::format("did you mean {}? {}", fmt::join(near, ", "), list);
}

bool is_path(const std::string& preset_or_path, const std::filesystem::path& data) {
  std::error_code absent;
  return preset_or_path.find('/') != std::string::npos || preset_or_path.ends_with(".json") ||
         (std::filesystem::is_directory(preset_or_path, absent) && !find_preset(preset_or_path, data));
}

}  // namespace

std::vector<ModelPreset> list_presets(const std::filesystem::path& data) {
  std::vector<ModelPreset> presets;
  for (const std::filesystem::path& file : list_folder(data / "models"))
    if (file.extension() == ".json") presets.push_back({.name = file.stem().string(), .path = file});
  std::sort(presets.begin(), presets.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return presets;
}

Result<ModelPreset> find_preset(std::string_view name, const std::filesystem::path& data) {
  const std::string wanted = normalized_name(name);
  for (const ModelPreset& preset : list_presets(data))
    if (preset.name == wanted) return preset;
  return fail({.message = fmt::format("no model is called \"{}\"", shown_text(name)),
               .expected = "a preset, the path of a config.json or its folder",
               .hint = name.ends_with(".toml")
                           ? fmt::format("a job file goes with --job: --job {}", shown_text(name))
                           : near_hint(near_names(name, data))});
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
  std::error_code absent;
  if (!is_path(preset_or_path, data)) return read_preset(preset_or_path, data, options);
  Result<Architecture> read = read_hf_config(preset_or_path, options);
  if (read || std::filesystem::exists(preset_or_path, absent)) return read;
  Error error = std::move(read.error());
  // A model's name on a hub looks like a path.
  if (const std::vector<std::string> near = near_names(preset_or_path, data); !near.empty())
    error.hint = near_hint(near);
  return fail(std::move(error));
}

Result<std::filesystem::path> find_model_config(const std::string& preset_or_path,
                                                const std::filesystem::path& data) {
  if (is_path(preset_or_path, data)) return config_file_of(preset_or_path);
  PLIMSOLL_TRY(preset, find_preset(preset_or_path, data));
  return preset.path;
}

}  // namespace plimsoll
