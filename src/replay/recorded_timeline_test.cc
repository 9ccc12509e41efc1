#include "replay/recorded_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using Action = AllocationAction;

TEST(RecordedTimeline, SamplesAnnotationsAndSegments) {
  const uint64_t at = uint64_t{0x7f} << 40;
  const Nanoseconds t0{1'700'000'000'000'000'000};
  const auto later = [&](int64_t us) { return t0 + Nanoseconds{us * 1000}; };
  AllocationTrace trace;
  trace.events = {{.action = Action::kSegmentAlloc, .address = at, .bytes = kMiB * 20, .time = t0},
                  {.action = Action::kAlloc, .address = at, .bytes = kMiB * 5, .time = later(1)},
                  {.action = Action::kFreeRequested, .address = at, .bytes = kMiB * 5, .time = later(7)},
                  {.action = Action::kFreeCompleted, .address = at, .bytes = kMiB * 5, .time = later(7)}};
  trace.segments = {{.address = at, .bytes = kMiB * 20, .is_large = true}};
  trace.segments[0].blocks = {{.address = at, .bytes = kMiB * 20}};
  trace.annotations = {{.time = later(1), .name = "step"},
                       {.time = later(5), .name = "step", .is_end = true},
                       {.time = later(6), .name = "open"}};
  const Result<Timeline> timeline = recorded_timeline(trace);
  ASSERT_TRUE(timeline) << timeline.error().to_text();
  EXPECT_THAT(timeline->tracks, testing::ElementsAre("annotations", "segments"));
  ASSERT_EQ(timeline->slices.size(), 3U);
  EXPECT_EQ(timeline->names[timeline->slices[0].name], "step");
  EXPECT_EQ(timeline->slices[0].begin, Nanoseconds{1000});
  EXPECT_EQ(timeline->slices[0].duration, Nanoseconds{4000});
  EXPECT_EQ(timeline->slices[1].duration, Nanoseconds{1000});  // to the end of the trace
  EXPECT_EQ(timeline->names[timeline->slices[2].name], "segment_alloc 20.00 MiB");
  Bytes peak;
  for (const MemorySample& sample : timeline->memory) peak = std::max(peak, sample.allocated);
  EXPECT_EQ(peak, kMiB * 5);
  EXPECT_EQ(timeline->memory.back().allocated, Bytes{});
  EXPECT_EQ(timeline->memory.back().reserved, kMiB * 20);
  EXPECT_EQ(timeline->memory.back().time, Nanoseconds{7000});
}

}  // namespace
}  // namespace plimsoll
