// The ranges of addresses that a recorded allocator had reserved for its expandable segments when a trace
// began, as far as the trace shows them: what was mapped then, and what was mapped into them later.
//
//   range     |  unmapped  | segment | unmapped | segment |  unmapped ...        |
//             ^ the lowest address that was ever mapped            the next range ^
//
// Does not model: pages below the lowest one that the trace shows mapped; that two ranges of one stream and
// pool lie side by side, which needs one of them to be out of addresses. Source: find_expandable_block and
// ExpandableSegment in c10/cuda/CUDACachingAllocator.cpp. Addresses and sizes in bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/replay_script.h"

namespace plimsoll {

struct RecordedRange {
  uint64_t address = 0;
  uint64_t size = 0;
  std::vector<const TraceSegment*> segments;  // mapped at the start, in order of address
};

struct RecordedRanges {
  std::vector<RecordedRange> at_start;  // by address
  uint64_t size_of_new = 0;             // of a range that is reserved during the trace
};

// The result refers to the script's segments.
RecordedRanges find_recorded_ranges(const ReplayScript& script);

}  // namespace plimsoll
