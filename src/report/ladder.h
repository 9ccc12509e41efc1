// The rungs of the ladder from parameters to the device's use: which categories a person sees as one.
#pragma once

#include <string_view>
#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

struct Rung {
  std::string_view name;
  std::vector<Category> categories;
};

// All categories but kWorkspace, each in one rung.
const std::vector<Rung>& live_rungs();

Bytes bytes_of(const Rung& rung, const CategoryBytes& categories);
Bytes workspace_of(const MemoryUse& use);
// What the allocator holds beyond what is live and what libraries took: rounding, unsplit tails, cached
// segments. Peaks of live and reserved memory may be at different moments.
Bytes slack_of(const MemoryUse& use);

}  // namespace plimsoll
