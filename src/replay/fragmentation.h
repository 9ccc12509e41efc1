// Where the memory lay that was reserved and not allocated: in whole cached segments, which the allocator
// gives back when it must, or in segments that a live block pins.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/allocation_trace.h"

namespace plimsoll {

struct StrandedSegment {
  uint64_t address = 0;
  Bytes bytes, free, largest_free;
  int64_t live_blocks = 0;
  uint64_t pinned_by = 0;  // address of its smallest live block
  Bytes pinned_bytes;      // of that block
};

struct Fragmentation {
  Bytes reserved, allocated;
  Bytes cached;  // of segments without live blocks
  int64_t cached_segments = 0;
  Bytes stranded;                         // free bytes of the others
  std::vector<StrandedSegment> segments;  // with free bytes and live blocks; most free bytes first
};

Fragmentation fragmentation_of(const std::vector<TraceSegment>& segments);

}  // namespace plimsoll
