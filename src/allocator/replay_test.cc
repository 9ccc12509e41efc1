#include "allocator/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/trace_state.h"

namespace plimsoll {
namespace {

using Action = AllocationAction;

Bytes mib(int64_t n) { return n * kMiB; }
constexpr uint64_t kBase = uint64_t{0x7f} << 40;
uint64_t at_mib(uint64_t n) { return kBase + (n << 20); }

// A large segment with a live block of 5 MiB, allocated before the trace; the trace adds one of 10 MiB behind
// it and frees the first.
AllocationTrace two_blocks() {
  AllocationTrace trace;
  trace.events = {{.action = Action::kAlloc, .address = at_mib(5), .bytes = mib(10)},
                  {.action = Action::kFreeRequested, .address = at_mib(0), .bytes = mib(5)},
                  {.action = Action::kFreeCompleted, .address = at_mib(0), .bytes = mib(5)}};
  trace.segments = {{.address = at_mib(0), .bytes = mib(20), .is_large = true}};
  trace.segments[0].blocks = {
      {.address = at_mib(0), .bytes = mib(5)},
      {.address = at_mib(5), .bytes = mib(10), .requested = mib(10), .state = BlockState::kAllocated},
      {.address = at_mib(15), .bytes = mib(5)}};
  return trace;
}

TEST(TraceState, UndoesEventsFromTheEnd) {
  const std::vector<TraceSegment> start = segments_at_start(two_blocks());
  ASSERT_EQ(start.size(), 1U);
  EXPECT_THAT(start[0].blocks, testing::ElementsAre(TraceBlock{.address = at_mib(0),
                                                               .bytes = mib(5),
                                                               .requested = mib(5),
                                                               .state = BlockState::kAllocated},
                                                    TraceBlock{.address = at_mib(5), .bytes = mib(15)}));
}

TEST(TraceState, SmallGapInTheLargePoolBelongsToTheBlockBeforeIt) {
  AllocationTrace trace;
  trace.events = {{.action = Action::kFreeRequested, .address = at_mib(0), .bytes = mib(19)},
                  {.action = Action::kFreeCompleted, .address = at_mib(0), .bytes = mib(19)}};
  trace.segments = {{.address = at_mib(0), .bytes = mib(20), .is_large = true}};
  trace.segments[0].blocks = {{.address = at_mib(0), .bytes = mib(20)}};
  const std::vector<TraceSegment> start = segments_at_start(trace);
  ASSERT_EQ(start[0].blocks.size(), 1U);
  EXPECT_EQ(start[0].blocks[0].bytes, mib(20));
}

TEST(TraceState, SegmentsComeAndGo) {
  AllocationTrace trace;
  trace.events = {{.action = Action::kSegmentFree, .address = at_mib(0), .bytes = mib(2)},
                  {.action = Action::kSegmentAlloc, .address = at_mib(40), .bytes = mib(20)},
                  {.action = Action::kSegmentMap, .address = at_mib(120), .bytes = mib(20)},
                  {.action = Action::kSegmentUnmap, .address = at_mib(80), .bytes = mib(20)}};
  trace.segments = {{.address = at_mib(40), .bytes = mib(20)},
                    {.address = at_mib(100), .bytes = mib(40), .is_large = true, .is_expandable = true}};
  const std::vector<TraceSegment> start = segments_at_start(trace);
  ASSERT_EQ(start.size(), 2U);
  EXPECT_EQ(start[0].address, at_mib(0));
  EXPECT_EQ(start[0].bytes, mib(2));
  EXPECT_EQ(start[1].address, at_mib(80));
  EXPECT_EQ(start[1].bytes, mib(40));
}

TEST(Replay, FindsTheRecordedAddress) {
  const Result<ReplayResult> result = replay(two_blocks(), AllocatorSettings{});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->allocations, 1);
  EXPECT_EQ(result->same_address, 1);
  EXPECT_EQ(result->unknown_frees, 0);
  EXPECT_EQ(result->stats.allocated.peak, mib(15));
  EXPECT_EQ(result->stats.allocated.current, mib(10));
  EXPECT_EQ(result->segments_at_end, two_blocks().segments);
}

// A block of 18 MiB from before the trace, in a segment of 40: with it gone, the trace shows nothing of the
// tail of half a MiB that it had.
TEST(Replay, NamesTheBlockWhoseTailTheTraceDoesNotShow) {
  AllocationTrace trace;
  trace.events = {
      // The 22 MiB behind the block would serve this, if the block were no larger than its request.
      {.action = Action::kAlloc, .address = at_mib(100), .bytes = mib(22)},
      {.action = Action::kFreeRequested, .address = at_mib(0), .bytes = mib(18)},
      {.action = Action::kFreeCompleted, .address = at_mib(0), .bytes = mib(18)},
      {.action = Action::kAlloc, .address = at_mib(0), .bytes = mib(40)}};
  trace.segments = {{.address = at_mib(0), .bytes = mib(40), .is_large = true},
                    {.address = at_mib(100), .bytes = mib(30), .is_large = true}};
  trace.segments[0].blocks = {
      {.address = at_mib(0), .bytes = mib(40), .requested = mib(40), .state = BlockState::kAllocated}};
  trace.segments[1].blocks = {
      {.address = at_mib(100), .bytes = mib(22), .requested = mib(22), .state = BlockState::kAllocated},
      {.address = at_mib(122), .bytes = mib(8)}};
  const Result<ReplayResult> result = replay(trace, AllocatorSettings{});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->same_address, 1);
  EXPECT_EQ(result->explained, 1);
  ASSERT_TRUE(result->first_divergence.has_value());
  EXPECT_EQ(result->first_divergence->event, 0U);
  EXPECT_EQ(result->first_divergence->replayed, at_mib(18));
  EXPECT_THAT(result->first_divergence->reason, testing::HasSubstr("0x7f0000000000"));
  EXPECT_EQ(result->segments_at_end, trace.segments);
}

// With other settings than the recorded ones the heap is surprised again and again, and goes on each time
// from where the block was recorded.
TEST(Replay, GoesOnFromTheRecordedAddressAfterASurprise) {
  AllocationTrace trace;
  trace.segments = {{.address = at_mib(0), .bytes = mib(20), .is_large = true}};
  trace.segments[0].blocks = {
      {.address = at_mib(0), .bytes = mib(10)},
      {.address = at_mib(10), .bytes = mib(4), .requested = mib(4), .state = BlockState::kAllocated},
      {.address = at_mib(14), .bytes = mib(6)}};
  trace.events = {{.action = Action::kAlloc, .address = at_mib(10), .bytes = mib(4)}};
  const Result<ReplayResult> result = replay(trace, AllocatorSettings{});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->same_address, 0);
  EXPECT_EQ(result->first_divergence->replayed, at_mib(0));
  EXPECT_EQ(result->segments_at_end, trace.segments);
}

// Pages of 20 MiB: two mapped at the start, one more mapped where the free bytes end, one unmapped.
TEST(Replay, FollowsExpandableSegments) {
  AllocationTrace trace;
  trace.settings.expandable_segments = true;
  trace.events = {{.action = Action::kSegmentMap, .address = at_mib(40), .bytes = mib(20)},
                  {.action = Action::kAlloc, .address = at_mib(25), .bytes = mib(30)},
                  {.action = Action::kFreeRequested, .address = at_mib(25), .bytes = mib(30)},
                  {.action = Action::kFreeCompleted, .address = at_mib(25), .bytes = mib(30)},
                  {.action = Action::kSegmentUnmap, .address = at_mib(40), .bytes = mib(20)}};
  trace.segments = {{.address = at_mib(0), .bytes = mib(40), .is_large = true, .is_expandable = true}};
  trace.segments[0].blocks = {
      {.address = at_mib(0), .bytes = mib(25), .requested = mib(25), .state = BlockState::kAllocated},
      {.address = at_mib(25), .bytes = mib(15)}};
  const Result<ReplayResult> result = replay(trace, {.expandable_segments = true});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->same_address, 1);
  EXPECT_EQ(result->segments, 1);
  EXPECT_EQ(result->same_segments, 1);
  EXPECT_EQ(result->stats.reserved.peak, mib(60));
  EXPECT_EQ(result->segments_at_end, trace.segments);
}

TEST(Replay, BlocksOfAPoolThatWereLeftWholeSayThatItNeverSplits) {
  AllocationTrace trace;
  trace.pools.push_back({.owner = 1});
  trace.events = {{.action = Action::kSegmentAlloc, .pool = 1, .address = at_mib(0), .bytes = mib(20)},
                  {.action = Action::kAlloc, .pool = 1, .address = at_mib(0), .bytes = mib(5)},
                  {.action = Action::kSegmentAlloc, .pool = 1, .address = at_mib(40), .bytes = mib(20)},
                  {.action = Action::kAlloc, .pool = 1, .address = at_mib(40), .bytes = mib(5)}};
  for (const uint64_t begin : {0, 40})
    trace.segments.push_back({.address = at_mib(begin),
                              .bytes = mib(20),
                              .pool = 1,
                              .is_large = true,
                              .blocks = {{.address = at_mib(begin),
                                          .bytes = mib(20),
                                          .requested = mib(5),
                                          .state = BlockState::kAllocated}}});
  const Result<ReplayResult> result = replay(trace, AllocatorSettings{});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->same_address, 2);
  EXPECT_EQ(result->same_segments, 2);
  EXPECT_EQ(result->segments_at_end, trace.segments);
}

}  // namespace
}  // namespace plimsoll
