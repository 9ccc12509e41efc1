// Of several things that do something together: those that it takes.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace plimsoll {

using PartIndices = std::vector<size_t>;

// For each list of parts whether it still does. May look at several at a time.
using StillDoes = std::function<std::vector<bool>(const std::vector<PartIndices>&)>;

// `parts` without those it does without, the last ones dropped first: none of what is left among `suspects`
// can be left out alone. REQUIRES that `parts` do, and suspects among them. Never leaves out all.
PartIndices needed_parts(PartIndices parts, const PartIndices& suspects, const StillDoes& still_does);

}  // namespace plimsoll
