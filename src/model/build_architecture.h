// From a configuration to the Architecture: finds the family, lets it read its keys, checks the whole and
// lists the tensors.
//
//   Result<Architecture> a = build_architecture(object, {.file = "config.json"});
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "model/config_value.h"

namespace plimsoll {

struct BuildOptions {
  std::string file;               // for messages
  std::string name;               // becomes Architecture::name; empty: the file
  std::optional<int64_t> layers;  // keep only the first so many layers
  // Keys that were put into the configuration and were not there: one that nobody asks for is an error, not a
  // note.
  std::vector<std::string> added_keys;
};

Result<Architecture> build_architecture(const ConfigValue::Object& config, const BuildOptions& options);

}  // namespace plimsoll
