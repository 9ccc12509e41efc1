// The state of an allocator when a trace begins, told from the state at its end: the events are undone one by
// one, last first.
//
// What the trace doesn't say: how much larger than its request a block was that had been allocated before the
// trace and was freed in it. In the large pool no free block of up to 1 MiB exists, so a gap of that size
// behind a block is counted to it. A larger gap begins where the trace's first allocation into it lands; when
// there is none while the block lives, the block is taken to end where its request, rounded to 512, ends.
// What contradicts the rest (blocks and segments that overlap) is left out. Units: bytes.
//
//   std::vector<TraceSegment> before = segments_at_start(trace);
#pragma once

#include <vector>

#include "trace/allocation_trace.h"

namespace plimsoll {

// Sorted by address; blocks tile their segments.
std::vector<TraceSegment> segments_at_start(const AllocationTrace& trace);

}  // namespace plimsoll
