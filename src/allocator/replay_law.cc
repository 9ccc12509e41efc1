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

// Addresses, sizes and owners from a handful of values, so that all kinds of contradictions come up.
AllocationTrace any_nonsense() {
  const auto address = [] {
    return (uint64_t{0x7f} << 40) + *rc::gen::inRange<uint64_t>(0, 60) * (5 << 20) / 2;
  };
  const auto bytes = [] {
    return *rc::gen::oneOf(
        rc::gen::element(Bytes{0}, Bytes{1}, Bytes{512}, kMiB, kMiB * 2, kMiB * 20, kMiB * 40, Bytes{-5},
                         Bytes{kMaxQuantity}),
        rc::gen::map(rc::gen::inRange<int64_t>(0, 60 << 20), [](int64_t n) { return Bytes{n}; }));
  };
  AllocationTrace trace;
  trace.pools.resize(2);
  trace.settings.expandable_segments = *rc::gen::arbitrary<bool>();
  const int events = *rc::gen::inRange(0, 150);
  for (int i = 0; i < events; ++i)
    trace.events.push_back({.action = static_cast<AllocationAction>(*rc::gen::inRange(0, 9)),
                            .pool = *rc::gen::inRange<PoolIndex>(0, 3),
                            .address = address(),
                            .bytes = bytes(),
                            .stream = *rc::gen::inRange<uint64_t>(0, 3)});
  const int segments = *rc::gen::inRange(0, 5);
  for (int i = 0; i < segments; ++i) {
    TraceSegment segment{.address = address(),
                         .stream = *rc::gen::inRange<uint64_t>(0, 3),
                         .pool = *rc::gen::inRange<PoolIndex>(0, 3),
                         .is_large = *rc::gen::arbitrary<bool>(),
                         .is_expandable = *rc::gen::arbitrary<bool>()};
    uint64_t at = segment.address;
    const int blocks = *rc::gen::inRange(1, 4);
    for (int b = 0; b < blocks; ++b) {
      const Bytes size = kMiB * *rc::gen::inRange<int64_t>(1, 12);
      segment.blocks.push_back({.address = at,
                                .bytes = size,
                                .requested = size,
                                .state = static_cast<BlockState>(*rc::gen::inRange(0, 3))});
      segment.bytes += size;
      at += static_cast<uint64_t>(size.value);
    }
    trace.segments.push_back(segment);
  }
  return trace;
}

RC_GTEST_PROP(ReplayLaw, TracesThatContradictThemselvesDoNoHarm, ()) {
  const AllocationTrace trace = any_nonsense();
  AllocatorSettings settings;
  settings.expandable_segments = trace.settings.expandable_segments;
  const Result<ReplayResult> result = replay(trace, settings);
  RC_ASSERT(result.has_value());
  RC_ASSERT(result->same_address <= result->allocations);
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
