// What a heap recorded, a replay does again: under every setting, with streams, private pools and memory that
// runs out, and of a trace that lost its first part as well.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "allocator/heap_calls.h"
#include "allocator/recorded_device.h"
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
                         Bytes{int64_t{1} << 50}, Bytes{kMaxQuantity}),
        rc::gen::map(rc::gen::inRange<int64_t>(0, 60 << 20), [](int64_t n) { return Bytes{n}; }));
  };
  AllocationTrace trace;
  trace.pools.resize(2);
  trace.settings.expandable_segments = *rc::gen::arbitrary<bool>();
  trace.settings.max_split_size = *rc::gen::element<std::optional<Bytes>>(std::nullopt, kMiB * 2, kMiB * 20);
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

void check_tiled(const TraceSegment& segment) {
  uint64_t at = segment.address;
  for (const TraceBlock& block : segment.blocks) {
    RC_ASSERT(block.address == at);
    RC_ASSERT(block.bytes > Bytes{0});
    at += static_cast<uint64_t>(block.bytes.value);
  }
  RC_ASSERT(at == segment.address + static_cast<uint64_t>(segment.bytes.value));
}

RC_GTEST_PROP(ReplayLaw, TracesThatContradictThemselvesDoNoHarm, ()) {
  const AllocationTrace trace = any_nonsense();
  AllocatorSettings settings;
  settings.expandable_segments = trace.settings.expandable_segments;
  settings.max_split_size = trace.settings.max_split_size;
  const Result<ReplayResult> result = replay(trace, settings);
  RC_ASSERT(result.has_value());
  RC_ASSERT(result->same_address <= result->allocations);
  for (const TraceSegment& segment : result->segments_at_end) check_tiled(segment);
}

// Of a state taken over, blocks in use and waiting, free parts of segments that max_split_size would never
// have cut, and requests that the device can't serve: what is given back are whole segments.
// The device has what was taken over, and no more.
RC_GTEST_PROP(ReplayLaw, WholeSegmentsOfAStateTakenOverAreGivenBack, ()) {
  TraceSegment segment{.address = uint64_t{0x7f} << 40, .is_large = true};
  const int blocks = *rc::gen::inRange(1, 6);
  for (int i = 0; i < blocks; ++i) {
    const Bytes size = kMiB * *rc::gen::inRange<int64_t>(2, 60);
    const bool is_gap = i > 0 && segment.blocks.back().state == BlockState::kFree;  // free blocks merge
    const auto state = static_cast<BlockState>(*rc::gen::inRange(0, is_gap ? 2 : 3));
    segment.blocks.push_back({.address = segment.address + static_cast<uint64_t>(segment.bytes.value),
                              .bytes = size,
                              .requested = state == BlockState::kFree ? Bytes{} : size,
                              .state = state});
    segment.bytes += size;
  }
  RecordedDevice device(uint64_t{1} << 36);
  RC_ASSERT(device.take(segment.address, static_cast<uint64_t>(segment.bytes.value)));
  CachingHeap heap(
      {.settings = {.max_split_size = kMiB * 20, .expandable_segments = *rc::gen::arbitrary<bool>()},
       .device = &device});
  const std::vector<BlockId> live = heap.adopt(segment, kDefaultStream);
  size_t next = 0;
  for (const TraceBlock& block : segment.blocks) {
    if (block.state == BlockState::kFree) continue;
    if (block.state == BlockState::kPendingFree) heap.begin_free(live[next]);
    ++next;
  }
  const bool is_free = std::ranges::none_of(
      segment.blocks, [](const TraceBlock& block) { return block.state == BlockState::kAllocated; });
  RC_ASSERT(!heap.alloc_in(0, kMiB * *rc::gen::inRange<int64_t>(301, 100'000), kDefaultStream));
  RC_ASSERT(heap.segments().size() == (is_free ? 0U : 1U));
  RC_ASSERT(heap.stats().reserved.current == (is_free ? Bytes{0} : segment.bytes));
  for (const TraceSegment& kept : heap.segments()) check_tiled(kept);
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
