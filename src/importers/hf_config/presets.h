// The models that come along: data/models/<name>.json, our own small configurations of well-known sizes in
// Hugging Face form.
//
//   for (const ModelPreset& preset : list_presets(data_dir())) ...   // sorted by name
//   Result<Architecture> a = read_preset("llama-3.1-8b", data_dir());
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "importers/hf_config/hf_config.h"

namespace plimsoll {

struct ModelPreset {
  std::string name;  // the file's name without .json
  std::filesystem::path path;
};

// Sorted by name; empty when the folder isn't there.
std::vector<ModelPreset> list_presets(const std::filesystem::path& data);
// Refuses an unknown name with those that are near.
Result<ModelPreset> find_preset(std::string_view name, const std::filesystem::path& data);
// Architecture::name is the preset's.
Result<Architecture> read_preset(std::string_view name, const std::filesystem::path& data,
                                 const HfConfigOptions& options = {});
// What a user calls a model: with a '/' or ending in ".json" a path (file or folder), otherwise a preset, or
// the name of a folder.
Result<Architecture> read_model(const std::string& preset_or_path, const std::filesystem::path& data,
                                const HfConfigOptions& options = {});
// The configuration that read_model() reads.
Result<std::filesystem::path> find_model_config(const std::string& preset_or_path,
                                                const std::filesystem::path& data);

}  // namespace plimsoll
