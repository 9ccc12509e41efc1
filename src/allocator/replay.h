// Plays a recorded trace through CachingHeap: how well the heap predicts what the allocator did, and, with
// other settings, what it would have done.
//
// The heap starts with the segments and blocks that were there when the trace began, makes the trace's
// allocations and frees in order, and is given the recorded address where it asks for a segment just when the
// allocator did. A run of segments given back is an empty_cache(). Blocks that wait for another stream wait
// as long as recorded.
//
//   const Result<ReplayResult> result = replay(trace, AllocatorSettings{});
//   result->same_address;  // of result->allocations
//
// Does not model: where the recorded memory ran out (the heap has no limit here, but gives back when the
// trace does).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/allocator_settings.h"
#include "allocator/caching_heap.h"
#include "allocator/heap.h"
#include "base/result.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

// Where the heap and the recorded allocator first went different ways.
struct Divergence {
  size_t event = 0;       // an alloc
  uint64_t recorded = 0;  // address
  uint64_t replayed = 0;
  std::string reason;  // what of the trace can't be known, when that explains it
};

// Hears of the replay as it goes.
class ReplayObserver {
 public:
  virtual ~ReplayObserver() = default;
  // A block of the heap, with rounding and unsplit tail: of an alloc, or of a block from before the trace
  // (no event).
  virtual void on_block(std::optional<size_t> event, uint64_t recorded_address, Bytes bytes) = 0;
  virtual void before_events(const CachingHeap& heap) = 0;
  virtual void after_event(size_t event, const CachingHeap& heap) = 0;
};

struct ReplayResult {
  int64_t allocations = 0;
  int64_t same_address = 0;    // as recorded
  int64_t segments = 0;        // recorded segment_alloc
  int64_t same_segments = 0;   // predicted at the same moment with the same size
  int64_t extra_segments = 0;  // asked for where the allocator didn't
  int64_t unknown_frees = 0;   // of blocks that the heap doesn't have
  HeapStats stats;             // from the trace's start
  std::optional<Divergence> first_divergence;
  std::vector<TraceSegment> segments_at_end;
};

// A trace with expandable segments is refused.
Result<ReplayResult> replay(const AllocationTrace& trace, const AllocatorSettings& settings,
                            ReplayObserver* observer = nullptr);

}  // namespace plimsoll
