// Ranges of addresses reserved for expandable segments, each for one stream and pool.
//
//   ranges.add({.address = a, .size = 1 << 30, .page = 2 << 20});
//   ranges.holding(a + 512);   // that one
//
// Ranges taken over from a trace may overlap, for only their beginnings are certain. As long as none do, each
// question looks at one range.
#pragma once

#include <cstdint>
#include <map>

namespace plimsoll {

struct ExpandableRange {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t page = 0;
};

class ExpandableRanges {
 public:
  bool empty() const { return by_address_.empty(); }
  bool may_overlap() const { return may_overlap_; }

  void add(const ExpandableRange& range);
  void erase(uint64_t address) { by_address_.erase(address); }  // those that begin there
  // The one of those around the address that begins nearest to it; null: none.
  const ExpandableRange* holding(uint64_t address) const;
  bool any_within(uint64_t begin, uint64_t end) const;

 private:
  std::multimap<uint64_t, ExpandableRange> by_address_;
  bool may_overlap_ = false;
};

}  // namespace plimsoll
