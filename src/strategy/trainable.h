// Which parameters are trained, by a regular expression on their names (Python's `re.search`: a match
// anywhere).
//
//   Result<std::vector<bool>> trained = trainable_parameters("q_proj|v_proj", architecture);
//
// Errors: a pattern that isn't read or that takes too long (strategy/name_pattern.h).
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"

namespace plimsoll {

// One flag per Architecture::parameters. A tied tensor is matched by its first name, as named_parameters()
// does.
Result<std::vector<bool>> trainable_parameters(std::string_view pattern, const Architecture& architecture);

}  // namespace plimsoll
