// What a heap recorded, a replay does again: under every setting, with streams, private pools and memory that
// runs out, and of a trace that lost its first part as well.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "allocator/heap_calls.h"
#include "allocator/replay.h"
#include "trace/trace_state.h"

namespace plimsoll {
namespace {

struct Run {
  AllocatorSettings settings;
  std::optional<Bytes> capacity;
  std::vector<HeapCall> calls;
  std::vector<PrivatePoolOptions> pools;
};

Run any_run() {
  Run run{.settings = any_settings(), .capacity = any_capacity(), .calls = any_calls_with_pools()};
  run.pools = {{}, {.serves_when_full = *rc::gen::arbitrary<bool>(), .has_own_allocator = true}};
  return run;
}

// The device is far larger than what is available, as one that is shared with others.
AllocationTrace record(const Run& run) {
  AllocationTrace trace;
  trace.settings = to_recorded(run.settings, "");
  AllocationRecorder recorder(trace);
  SlowStreams clock;
  SimulatedDevice device(run.capacity, kMiB * (64 << 10));
  CachingHeap heap({.settings = run.settings, .device = &device, .clock = &clock, .recorder = &recorder});
  for (const PrivatePoolOptions& pool : run.pools) {
    heap.open_pool(pool);
    trace.pools.push_back({.owner = static_cast<int64_t>(trace.pools.size())});
  }
  std::vector<BlockId> live;
  make_calls(run.calls, heap, live, [](const CachingHeap&) {});
  trace.segments = heap.segments();
  return trace;
}

RC_GTEST_PROP(ReplayLaw, UndoingAllEventsLeavesNothing, ()) {
  RC_ASSERT(segments_at_start(record(any_run())).empty());
}

RC_GTEST_PROP(ReplayLaw, ReplayOfOwnTraceIsTheSame, ()) {
  const Run run = any_run();
  const AllocationTrace trace = record(run);
  const Result<ReplayResult> result = replay(trace, run.settings);
  RC_ASSERT(result.has_value());
  RC_ASSERT(result->same_address == result->allocations);
  RC_ASSERT(result->same_segments == result->segments);
  RC_ASSERT(result->extra_segments == 0);
  RC_ASSERT(result->unknown_frees == 0);
  RC_ASSERT(result->segments_at_end == trace.segments);
}

RC_GTEST_PROP(ReplayLaw, OfATraceThatLostItsFirstPartOnlyNamedTailsAreUnknown, ()) {
  const Run run = any_run();
  AllocationTrace trace = record(run);
  const auto lost = *rc::gen::inRange<size_t>(0, trace.events.size() + 1);
  trace.events.erase(trace.events.begin(), trace.events.begin() + static_cast<std::ptrdiff_t>(lost));
  const Result<ReplayResult> result = replay(trace, run.settings);
  RC_ASSERT(result.has_value());
  RC_ASSERT(result->same_address + result->explained == result->allocations);
  RC_ASSERT(result->unknown_frees == 0);
  if (result->explained > 0) return;
  RC_ASSERT(result->same_segments == result->segments);
  RC_ASSERT(result->extra_segments == 0);
}

}  // namespace
}  // namespace plimsoll
