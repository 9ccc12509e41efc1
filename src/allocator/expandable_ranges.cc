#include "allocator/expandable_ranges.h"

#include <iterator>

namespace plimsoll {

void ExpandableRanges::add(const ExpandableRange& range) {
  may_overlap_ = may_overlap_ || any_within(range.address, range.address + range.size);
  by_address_.emplace(range.address, range);
}

const ExpandableRange* ExpandableRanges::holding(uint64_t address) const {
  for (auto at = by_address_.upper_bound(address); at != by_address_.begin();) {
    --at;
    if (address - at->first < at->second.size) return &at->second;
    if (!may_overlap_) return nullptr;
  }
  return nullptr;
}

bool ExpandableRanges::any_within(uint64_t begin, uint64_t end) const {
  for (auto at = by_address_.lower_bound(end); at != by_address_.begin();) {
    --at;
    if (begin < at->first + at->second.size) return true;
    if (!may_overlap_) return false;
  }
  return false;
}

}  // namespace plimsoll
