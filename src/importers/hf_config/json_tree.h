// JSON text to a ConfigValue tree, with the place of every key.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/config_value.h"

namespace plimsoll {

inline constexpr size_t kMaxConfigBytes = size_t{16} << 20;
inline constexpr size_t kMaxConfigDepth = 32;
inline constexpr size_t kMaxConfigValues = size_t{1} << 20;

// Refused, with line and column: anything that isn't JSON (so NaN too), deeper nesting or more values than
// the bounds, a key twice in one object, a text that isn't UTF-8, a top level that isn't an object.
// `expected` says in errors what the text should have been.
Result<ConfigValue::Object> parse_json_object(std::string_view text, const std::string& file,
                                              std::string_view expected = "a model's configuration");

}  // namespace plimsoll
