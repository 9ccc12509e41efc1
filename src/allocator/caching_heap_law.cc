// Laws of the caching heap, on random sequences of calls under random settings.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "allocator/caching_heap.h"
#include "allocator/heap_calls.h"
#include "allocator/lower_bound_heap.h"

namespace plimsoll {
namespace {

// Adds the blocks up anew and compares with the counters; checks that blocks tile their segments.
void check_consistent(const CachingHeap& heap) {
  Bytes allocated, active, reserved, requested, inactive_split;
  uint64_t end = 0;
  for (const TraceSegment& segment : heap.segments()) {
    RC_ASSERT(segment.address >= end);
    uint64_t at = segment.address;
    bool follows_free = false;
    for (const TraceBlock& block : segment.blocks) {
      RC_ASSERT(block.address == at);
      RC_ASSERT(block.bytes > Bytes{0} && block.bytes.value % 512 == 0);
      at += static_cast<uint64_t>(block.bytes.value);
      const bool is_free = block.state == BlockState::kFree;
      RC_ASSERT(!(is_free && follows_free));  // they would have merged
      follows_free = is_free;
      if (block.state == BlockState::kAllocated) allocated += block.bytes;
      if (!is_free) active += block.bytes;
      if (is_free && !segment.is_expandable && segment.blocks.size() > 1) inactive_split += block.bytes;
      RC_ASSERT(block.requested <= block.bytes);
      requested += block.requested;
    }
    end = at;
    RC_ASSERT(end == segment.address + static_cast<uint64_t>(segment.bytes.value));
    reserved += segment.bytes;
  }
  const HeapStats stats = heap.stats();
  RC_ASSERT(stats.allocated.current == allocated);
  RC_ASSERT(stats.active.current == active);
  RC_ASSERT(stats.reserved.current == reserved);
  RC_ASSERT(stats.requested.current == requested);
  RC_ASSERT(stats.inactive_split.current == inactive_split);
}

RC_GTEST_PROP(CachingHeapLaw, BlocksTileSegmentsAndCountersAddUp, ()) {
  SimulatedDevice device(any_capacity());
  SlowStreams clock;
  CachingHeap heap({.settings = any_settings(), .device = &device, .clock = &clock});
  std::vector<BlockId> live;
  make_calls(any_calls(), heap, live, [&](const CachingHeap& h) {
    check_consistent(h);
    RC_ASSERT(device.used() == static_cast<uint64_t>(h.stats().reserved.current.value));
  });
}

RC_GTEST_PROP(CachingHeapLaw, FreeingAllLeavesWholeSegmentsThenNothing, ()) {
  SimulatedDevice device(any_capacity());
  SlowStreams clock;
  CachingHeap heap({.settings = any_settings(), .device = &device, .clock = &clock});
  std::vector<BlockId> live;
  make_calls(any_calls(), heap, live, [](const CachingHeap&) {});
  for (const BlockId block : live) heap.free(block);
  RC_ASSERT(heap.stats().allocated.current == Bytes{0});
  heap.finish();
  RC_ASSERT(heap.stats().active.current == Bytes{0});
  RC_ASSERT(heap.stats().requested.current == Bytes{0});
  RC_ASSERT(heap.stats().num_allocs == heap.stats().num_frees);
  for (const TraceSegment& segment : heap.segments()) RC_ASSERT(segment.blocks.size() == 1U);
  heap.empty_cache();
  RC_ASSERT(heap.stats().reserved.current == Bytes{0});
  RC_ASSERT(heap.segments().empty());  // addresses of an expandable segment may stay reserved, without memory
  RC_ASSERT(device.used() == 0U);
}

RC_GTEST_PROP(CachingHeapLaw, NeverBelowTheLowerBound, ()) {
  CachingHeap heap({.settings = any_settings()});
  LowerBoundHeap bound;
  std::map<uint32_t, BlockId> bound_of;
  for (const HeapCall& call : any_calls()) {
    if (call.kind == HeapCall::kAlloc) {
      const BlockId block = *heap.alloc(Bytes{call.size}, call.stream);
      bound_of[block.index] = *bound.alloc(Bytes{call.size}, call.stream);
    } else if (call.kind == HeapCall::kFree && !bound_of.empty()) {
      const auto freed = std::next(bound_of.begin(), call.which % static_cast<int>(bound_of.size()));
      heap.free(BlockId{freed->first});
      bound.free(freed->second);
      bound_of.erase(freed);
    }
    RC_ASSERT(heap.stats().requested == bound.stats().requested);
    RC_ASSERT(heap.stats().allocated.current >= bound.stats().allocated.current);
    RC_ASSERT(heap.stats().reserved.peak >= bound.stats().reserved.peak);
  }
}

RC_GTEST_PROP(CachingHeapLaw, SameCallsSameEvents, ()) {
  const std::vector<HeapCall> calls = any_calls();
  const AllocatorSettings settings = any_settings();
  AllocationTrace traces[2];
  for (AllocationTrace& trace : traces) {
    AllocationRecorder recorder(trace);
    SlowStreams clock;
    CachingHeap heap({.settings = settings, .clock = &clock, .recorder = &recorder});
    std::vector<BlockId> live;
    make_calls(calls, heap, live, [](const CachingHeap&) {});
    trace.segments = heap.segments();
  }
  RC_ASSERT(traces[0].events == traces[1].events);
  RC_ASSERT(traces[0].segments == traces[1].segments);
}

}  // namespace
}  // namespace plimsoll
