// Plays a recorded trace through CachingHeap: how well the heap predicts what the allocator did.
//
// The heap starts with the segments and blocks that were there when the trace began, and makes the trace's
// allocations and frees in order. Where it needs memory just when the allocator got some, it is given the
// recorded address; a place in an expandable segment it has to find itself. Memory that the trace gives back
// is given back; blocks that wait for another stream wait as long as recorded. Where heap and allocator go
// different ways, the block is put where it was recorded, so that one surprise doesn't bring others.
//
//   const Result<ReplayResult> result = replay(trace, AllocatorSettings{});
//   result->same_address;  // of result->allocations
//
// Does not model: when memory ran out (counted in memory_stats.num_ooms) and what was given back then; the
// trace says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/allocator_settings.h"
#include "allocator/caching_heap.h"
#include "allocator/heap.h"
#include "allocator/replay_script.h"
#include "base/result.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

// Where the heap and the recorded allocator went different ways.
struct Divergence {
  size_t event = 0;       // an alloc
  uint64_t recorded = 0;  // address
  uint64_t replayed = 0;  // 0: the heap found no free block and would have asked for memory
  std::string reason;     // what of the trace can't be known, when that explains it

  friend bool operator==(const Divergence&, const Divergence&) = default;
};

// Hears of the replay as it goes.
class ReplayObserver {
 public:
  virtual ~ReplayObserver() = default;
  virtual void on_block(size_t /*alloc event*/, Bytes /*with rounding and unsplit tail*/) {}
  virtual void before_events(const CachingHeap& heap) = 0;
  virtual void after_event(size_t event, const CachingHeap& heap) = 0;
};

struct ReplayResult {
  int64_t allocations = 0;
  int64_t same_address = 0;    // as recorded
  int64_t segments = 0;        // recorded segment_alloc and segment_map
  int64_t same_segments = 0;   // predicted at the same moment, of the same size; pages at the same address
  int64_t extra_segments = 0;  // needed where the allocator got none
  int64_t unknown_frees = 0;   // of blocks that the heap doesn't have
  int64_t explained = 0;       // divergences that have a reason
  HeapStats stats;             // from the trace's start
  MemoryStats memory_stats;    // the same by the names of torch.cuda.memory_stats(), at the end
  std::optional<Divergence> first_divergence;
  std::vector<Divergence> divergences;  // the first hundred
  std::vector<TraceSegment> segments_at_end;
};

Result<ReplayResult> replay(const AllocationTrace& trace, const AllocatorSettings& settings,
                            ReplayObserver* observer = nullptr);
// The same of a trace that was compiled with these settings.
ReplayResult replay(const ReplayScript& script, const AllocatorSettings& settings,
                    ReplayObserver* observer = nullptr);

// The heap's segments in such a replay after this event; none: before the first one. Plays no further.
std::vector<TraceSegment> segments_after(const ReplayScript& script, const AllocatorSettings& settings,
                                         std::optional<size_t> event);

}  // namespace plimsoll
