#include "importers/hf_config/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "importers/hf_config/json_tree.h"
#include "model/build_architecture.h"
#include "strategy/field.h"
#include "strategy/path_match.h"

namespace plimsoll {
namespace {

Error unreadable(const std::filesystem::path& path, std::string message) {
  return {.position = {.file = path.string()},
          .message = std::move(message),
          .expected = "a model's config.json, or the folder that holds it"};
}

// The size comes first: it tells whether the path is a file, and opening something else may wait for ever.
Result<std::string> text_of(const std::filesystem::path& path) {
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  if (problem) return fail(unreadable(path, "can't be read: " + problem.message()));
  if (size > kMaxConfigBytes) {
    return fail({.position = {.file = path.string()},
                 .message = fmt::format("is {} bytes long", with_thousands(static_cast<int64_t>(size))),
                 .expected = "a model's configuration, at most 16 MiB",
                 .hint = "weights aren't needed: give the config.json beside them"});
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(unreadable(path, "can't be opened"));
  std::string text(static_cast<size_t>(size), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

// "vocab_size", "text_config.vocab_size": keys of the configuration and of the objects in it.
std::vector<std::string> paths_of(const ConfigValue::Object& object) {
  std::vector<std::string> paths;
  for (const ConfigMember& m : object) {
    paths.push_back(m.key);
    if (const auto* inner = m.value.as<ConfigValue::Object>())
      for (const ConfigMember& n : *inner) paths.push_back(m.key + "." + n.key);
  }
  return paths;
}

}  // namespace

Result<std::filesystem::path> config_file_of(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  const std::filesystem::path inside = path / "config.json";
  if (std::filesystem::exists(inside, ignored)) return inside;
  return fail({.position = {.file = path.string()},
               .message = "is a folder without a config.json",
               .expected = "a model's config.json, or the folder that holds it"});
}

bool sniff_hf_config(std::string_view text) {
  const std::string_view head = text.substr(0, size_t{1} << 16);
  const size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start == std::string_view::npos || head[start] != '{') return false;
  return head.find("\"model_type\"") != std::string_view::npos ||
         head.find("\"architectures\"") != std::string_view::npos;
}

Result<Architecture> read_hf_config_text(std::string_view text, const std::string& file,
                                         const HfConfigOptions& options) {
  PLIMSOLL_TRY(object, parse_json_object(text, file));
  std::vector<std::string> keys = paths_of(object);
  PLIMSOLL_TRY(added, apply_overrides(object, options.overrides));
  Result<Architecture> built = build_architecture(
      object, {.file = file, .name = options.name, .layers = options.layers, .added_keys = added});
  if (built || std::ranges::find(added, built.error().position.key) == added.end()) return built;
  Error error = std::move(built.error());
  error.position = {.file = std::string(kOverridesPath), .key = error.position.key};
  if (error.hint.empty()) error.hint = did_you_mean(error.position.key, keys);
  return fail(std::move(error));
}

Result<Architecture> read_hf_config(const std::filesystem::path& path, const HfConfigOptions& options) {
  PLIMSOLL_TRY(file, config_file_of(path));
  PLIMSOLL_TRY(text, text_of(file));
  return read_hf_config_text(text, file.string(), options);
}

}  // namespace plimsoll
