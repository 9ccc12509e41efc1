// Configuration keys that a job replaces, applied to the parsed file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/config_value.h"

namespace plimsoll {

// Key -> JSON text. A dotted key descends: "text_config.num_hidden_layers". A key that the file lacks is
// added.
using ConfigOverrides = std::vector<std::pair<std::string, std::string>>;

// Returns the keys that were not there before. Errors: a value that isn't JSON, a path through something that
// isn't an object.
Result<std::vector<std::string>> apply_overrides(ConfigValue::Object& config,
                                                 const ConfigOverrides& overrides);

}  // namespace plimsoll
