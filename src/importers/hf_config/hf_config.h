// Reads a model's config.json in the form of Hugging Face Transformers. Nothing of the file is executed; its
// size and depth are bounded, duplicate keys and sizes that can't be are refused with their place.
//
//   Result<Architecture> a = read_hf_config("config.json");
//   Result<Architecture> b = read_hf_config("checkpoint/");                     // checkpoint/config.json
//   Result<Architecture> c = read_hf_config("config.json", {.layers = 4});      // only the first four layers
//
// Source: Transformers 5.24, models/<family>/configuration_<family>.py.
// Does not model: vision and audio parts of multimodal models (a note says so); quantized storage.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "importers/hf_config/overrides.h"
#include "model/architecture.h"

namespace plimsoll {

struct HfConfigOptions {
  std::optional<int64_t> layers;  // keep only the first so many layers
  std::string name;               // becomes Architecture::name; empty: the path
  ConfigOverrides overrides;      // keys to replace
};

// Whether the text looks like such a configuration; reads no more than its beginning.
bool sniff_hf_config(std::string_view text);

// The path itself, or the config.json of a folder.
Result<std::filesystem::path> config_file_of(const std::filesystem::path& path);
// A file, or a folder with a config.json in it.
Result<Architecture> read_hf_config(const std::filesystem::path& path, const HfConfigOptions& options = {});
// `file` goes into messages.
Result<Architecture> read_hf_config_text(std::string_view text, const std::string& file,
                                         const HfConfigOptions& options = {});

}  // namespace plimsoll
