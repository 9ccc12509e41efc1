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

TEST(Replay, RefusesExpandableSegments) {
  AllocationTrace trace = two_blocks();
  trace.segments[0].is_expandable = true;
  EXPECT_FALSE(replay(trace, AllocatorSettings{}).has_value());
}

}  // namespace
}  // namespace plimsoll
