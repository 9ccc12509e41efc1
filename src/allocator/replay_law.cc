// What a heap recorded, a replay does again.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "allocator/heap_calls.h"
#include "allocator/replay.h"
#include "trace/trace_state.h"

namespace plimsoll {
namespace {

AllocationTrace record(const AllocatorSettings& settings, const std::vector<HeapCall>& calls) {
  AllocationTrace trace;
  AllocationRecorder recorder(trace);
  SlowStreams clock;
  CachingHeap heap({.settings = settings, .clock = &clock, .recorder = &recorder});
  std::vector<BlockId> live;
  make_calls(calls, heap, live, [](const CachingHeap&) {});
  trace.segments = heap.segments();
  return trace;
}

RC_GTEST_PROP(ReplayLaw, UndoingAllEventsLeavesNothing, ()) {
  const AllocationTrace trace = record(any_settings(), any_calls());
  RC_ASSERT(segments_at_start(trace).empty());
}

RC_GTEST_PROP(ReplayLaw, ReplayOfOwnTraceIsTheSame, ()) {
  AllocatorSettings settings = any_settings();
  settings.expandable_segments = false;
  std::vector<HeapCall> calls = any_calls();
  // What waits for another stream at an empty_cache() is waited for there, which the trace shows too late.
  std::erase_if(calls, [](const HeapCall& call) { return call.kind == HeapCall::kEmptyCache; });
  const AllocationTrace trace = record(settings, calls);
  const Result<ReplayResult> result = replay(trace, settings);
  RC_ASSERT(result.has_value());
  RC_ASSERT(result->same_address == result->allocations);
  RC_ASSERT(result->same_segments == result->segments);
  RC_ASSERT(result->extra_segments == 0);
  RC_ASSERT(result->unknown_frees == 0);
  RC_ASSERT(result->segments_at_end == trace.segments);
}

}  // namespace
}  // namespace plimsoll
