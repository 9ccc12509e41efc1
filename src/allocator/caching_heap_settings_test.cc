// The rules of CachingHeap that are not on by default.
#include <gtest/gtest.h>

#include <map>

#include "allocator/caching_heap.h"
#include "allocator/heap_test_helpers.h"

namespace plimsoll {
namespace {

// ---- max_split_size_mb, max_non_split_rounding_mb

TEST(MaxSplit, OversizeBlocksAreNeitherSplitNorGivenToSmallerRequests) {
  CachingHeap heap({.settings = {.max_split_size = mib(50)}});
  heap.free(must(heap.alloc(mib(60), kDefaultStream)));
  must(heap.alloc(mib(45), kDefaultStream));  // below the limit: may not use the 60
  EXPECT_EQ(heap.stats().reserved.current, mib(60 + 46));
  const BlockId large = must(heap.alloc(mib(52), kDefaultStream));  // above it: may, whole
  EXPECT_EQ(heap.block_size(large), mib(60));
  EXPECT_EQ(heap.stats().reserved.current, mib(60 + 46));
}

TEST(MaxSplit, OversizeBlockMayExceedTheRequestByTheRoundingOnly) {
  CachingHeap heap({.settings = {.max_split_size = mib(50)}});
  heap.free(must(heap.alloc(mib(80), kDefaultStream)));
  must(heap.alloc(mib(60), kDefaultStream));  // 80 >= 60 + 20
  EXPECT_EQ(heap.stats().reserved.current, mib(140));
  const BlockId fits = must(heap.alloc(mib(60) + kB512, kDefaultStream));
  EXPECT_EQ(heap.block_size(fits), mib(80));
}

TEST(MaxSplit, WhenFullOneLargeEnoughOversizeBlockGoesFirst) {
  SimulatedDevice device(mib(300));
  CachingHeap heap({.settings = {.max_split_size = mib(50)}, .device = &device});
  const BlockId a = must(heap.alloc(mib(60), kDefaultStream));
  const BlockId b = must(heap.alloc(mib(100), kDefaultStream));
  const BlockId c = must(heap.alloc(mib(120), kDefaultStream));
  for (const BlockId block : {a, b, c}) heap.free(block);
  must(heap.alloc(mib(75),
                  kDefaultStream));  // 100 is the smallest that makes room, but is too large to use
  EXPECT_EQ(heap.stats().reserved.current, mib(60 + 120 + 76));
  EXPECT_EQ(heap.stats().num_alloc_retries, 0);
}

TEST(MaxSplit, WhenFullTheLargestOversizeBlocksGoUntilItIsEnough) {
  SimulatedDevice device(mib(300));
  CachingHeap heap({.settings = {.max_split_size = mib(50)}, .device = &device});
  const BlockId a = must(heap.alloc(mib(60), kDefaultStream));
  const BlockId b = must(heap.alloc(mib(100), kDefaultStream));
  const BlockId c = must(heap.alloc(mib(120), kDefaultStream));
  for (const BlockId block : {a, b, c}) heap.free(block);
  must(heap.alloc(mib(200), kDefaultStream));
  EXPECT_EQ(heap.stats().reserved.current, mib(60 + 200));
  EXPECT_EQ(heap.stats().num_alloc_retries, 0);
}

// ---- large_segment_size_mb, roundup_power2_divisions

TEST(LargeSegmentSize, ServesRequestsBelowTenMiB) {
  CachingHeap heap({.settings = {.large_segment_size = mib(64)}});
  must(heap.alloc(mib(2), kDefaultStream));
  EXPECT_EQ(heap.stats().reserved.current, mib(64));
  must(heap.alloc(mib(62), kDefaultStream));
  EXPECT_EQ(heap.stats().reserved.current, mib(64));
}

TEST(Roundup, BlocksAreOfTheRoundedSize) {
  AllocatorSettings settings;
  settings.roundup_power2_divisions.fill(4);
  CachingHeap heap({.settings = settings});
  EXPECT_EQ(heap.block_size(must(heap.alloc(mib(33), kDefaultStream))), mib(40));
  EXPECT_EQ(heap.stats().requested.current, mib(33));
}

// ---- per_process_memory_fraction, garbage_collection_threshold

TEST(MemoryFraction, LimitsWhatIsReserved) {
  SimulatedDevice device(mib(200));
  CachingHeap heap({.settings = {.per_process_memory_fraction = 0.5}, .device = &device});
  must(heap.alloc(mib(90), kDefaultStream));
  const Allocation fails = heap.alloc(mib(12), kDefaultStream);
  ASSERT_FALSE(fails.has_value());
  EXPECT_EQ(fails.error().device_free, mib(110));
  must(heap.alloc(mib(10), kDefaultStream));
}

TEST(GarbageCollection, OldWholeSegmentsGoWhenReservedIsAboveTheThreshold) {
  SimulatedDevice device(mib(1000));
  CachingHeap heap({.settings = {.garbage_collection_threshold = 0.1, .per_process_memory_fraction = 1.0},
                    .device = &device});
  const BlockId old = must(heap.alloc(mib(60), kDefaultStream));
  heap.free(old);
  for (int i = 0; i < 10; ++i) heap.free(must(heap.alloc(mib(62), kDefaultStream)));  // used again and again
  EXPECT_EQ(heap.stats().reserved.current, mib(122));
  must(heap.alloc(mib(100),
                  kDefaultStream));  // 122 is more than 100: the 60 is older than the mean, the 62 not
  EXPECT_EQ(heap.stats().reserved.current, mib(162));
  EXPECT_EQ(heap.stats().num_device_free, 1);
}

TEST(GarbageCollection, IsOffWithoutAMemoryFraction) {
  SimulatedDevice device(mib(1000));
  CachingHeap heap({.settings = {.garbage_collection_threshold = 0.1}, .device = &device});
  heap.free(must(heap.alloc(mib(200), kDefaultStream)));
  must(heap.alloc(mib(300), kDefaultStream));
  EXPECT_EQ(heap.stats().reserved.current, mib(500));
}

// ---- expandable_segments

TEST(Expandable, MapsWholePagesAndGrowsTheFreeTail) {
  CachingHeap heap({.settings = {.expandable_segments = true}});
  const BlockId a = must(heap.alloc(mib(30), kDefaultStream));
  EXPECT_EQ(heap.stats().reserved.current, mib(40));  // two pages of 20
  const BlockId b = must(heap.alloc(mib(15), kDefaultStream));
  EXPECT_EQ(heap.stats().reserved.current, mib(60));  // 10 were free at the end: one page more
  EXPECT_EQ(heap.block_address(b), heap.block_address(a) + static_cast<uint64_t>(mib(30).value));
  EXPECT_EQ(heap.segments().size(), 1U);
  must(heap.alloc(kB512, kDefaultStream));
  EXPECT_EQ(heap.stats().reserved.current, mib(62));  // the small pool's pages are of 2 MiB
  EXPECT_EQ(heap.segments().size(), 2U);
  EXPECT_EQ(heap.stats().inactive_split.current, Bytes{0});
}

TEST(Expandable, SplitsDownTo512InTheLargePoolToo) {
  CachingHeap heap({.settings = {.expandable_segments = true}});
  const BlockId block = must(heap.alloc(mib(20) - kB512, kDefaultStream));
  EXPECT_EQ(heap.block_size(block), mib(20) - kB512);
}

TEST(Expandable, PrefersAHoleThatFitsToTheTailThatCanGrow) {
  CachingHeap heap({.settings = {.expandable_segments = true}});
  const BlockId first = must(heap.alloc(mib(24), kDefaultStream));
  must(heap.alloc(mib(4), kDefaultStream));  // 40 mapped, 12 free at the end
  const uint64_t hole = heap.block_address(first);
  heap.free(first);
  // The tail of 12 is the smaller block, but counts with all it can grow to.
  EXPECT_EQ(heap.block_address(must(heap.alloc(mib(10), kDefaultStream))), hole);
}

TEST(Expandable, UnmapsWholePagesInsideAFreeBlockOnly) {
  CachingHeap heap({.settings = {.expandable_segments = true}});
  const BlockId a = must(heap.alloc(mib(10), kDefaultStream));
  const BlockId b = must(heap.alloc(mib(40), kDefaultStream));
  const BlockId c = must(heap.alloc(mib(10), kDefaultStream));
  heap.free(b);  // from 10 to 50: of the pages 20-40 only is inside
  heap.empty_cache();
  EXPECT_EQ(heap.stats().reserved.current, mib(40));
  EXPECT_EQ(heap.segments().size(), 2U);
  must(heap.alloc(mib(20) + kB512, kDefaultStream));  // fills the gap from 10: the page at 20 comes back
  EXPECT_EQ(heap.stats().reserved.current, mib(60));
  heap.free(a);
  heap.free(c);
  EXPECT_EQ(heap.segments().size(), 1U);
}

TEST(Expandable, RunsOutOfMemoryLikeADevice) {
  SimulatedDevice device(mib(100));
  CachingHeap heap({.settings = {.expandable_segments = true}, .device = &device});
  const BlockId a = must(heap.alloc(mib(70), 0));
  heap.free(a);
  must(heap.alloc(mib(90), 1));  // the other stream's pages are unmapped first
  EXPECT_EQ(heap.stats().num_alloc_retries, 1);
  EXPECT_EQ(heap.stats().reserved.current, mib(100));
  EXPECT_FALSE(heap.alloc(mib(2), 0).has_value());
}

// ---- record_stream

class ManualClock final : public StreamClock {
 public:
  Nanoseconds now() const override { return Nanoseconds{time}; }
  Nanoseconds busy_until(HeapStream stream) const override {
    const auto busy = busy_streams.find(stream);
    return Nanoseconds{busy == busy_streams.end() ? 0 : busy->second};
  }
  int64_t time = 0;
  std::map<HeapStream, int64_t> busy_streams;
};

TEST(RecordStream, BlockStaysActiveUntilTheOtherStreamIsDone) {
  ManualClock clock;
  CachingHeap heap({.clock = &clock});
  const BlockId block = must(heap.alloc(mib(30), 0));
  heap.record_stream(block, 1);
  clock.busy_streams[1] = 100;
  heap.free(block);
  EXPECT_EQ(heap.stats().allocated.current, Bytes{0});
  EXPECT_EQ(heap.stats().active.current, mib(30));
  clock.time = 99;
  must(heap.alloc(mib(30), 0));  // too early to have the block again
  EXPECT_EQ(heap.stats().reserved.current, mib(60));
  clock.time = 100;
  must(heap.alloc(mib(30), 0));
  EXPECT_EQ(heap.stats().reserved.current, mib(60));
  EXPECT_EQ(heap.stats().active.current, mib(60));
}

TEST(RecordStream, ItsOwnStreamDoesNotCount) {
  ManualClock clock;
  clock.busy_streams[0] = 100;
  CachingHeap heap({.clock = &clock});
  const BlockId block = must(heap.alloc(mib(30), 0));
  heap.record_stream(block, 0);
  heap.free(block);
  EXPECT_EQ(heap.stats().active.current, Bytes{0});
}

TEST(RecordStream, RunningOutOfMemoryWaitsForTheStreams) {
  ManualClock clock;
  clock.busy_streams[1] = 100;
  SimulatedDevice device(mib(40));
  CachingHeap heap({.device = &device, .clock = &clock});
  const BlockId block = must(heap.alloc(mib(30), 0));
  heap.record_stream(block, 1);
  heap.free(block);
  must(heap.alloc(mib(32), 0));
  EXPECT_EQ(heap.stats().num_alloc_retries, 1);
}

TEST(RecordStream, FinishReturnsAll) {
  ManualClock clock;
  clock.busy_streams = {{1, 100}, {2, 200}};
  CachingHeap heap({.clock = &clock});
  const BlockId block = must(heap.alloc(mib(30), 0));
  heap.record_stream(block, 1);
  heap.record_stream(block, 2);
  heap.record_stream(block, 2);
  heap.free(block);
  clock.time = 150;
  heap.free(must(heap.alloc(kB512, 0)));
  EXPECT_EQ(heap.stats().active.current, mib(30));  // the second stream isn't done
  heap.finish();
  EXPECT_EQ(heap.stats().active.current, Bytes{0});
}

// ---- recording

TEST(Recording, SegmentComesBeforeTheBlockItServes) {
  AllocationTrace trace;
  const StackId stack = trace.stacks.add({{.name = "aten::mm", .filename = "layers.0.mlp"}});
  AllocationRecorder recorder(trace);
  recorder.set_stack(stack);
  recorder.set_time(Nanoseconds{7});
  CachingHeap heap({.recorder = &recorder});
  const BlockId block = must(heap.alloc(Bytes{1000}, kDefaultStream));
  const uint64_t address = heap.block_address(block);
  trace.segments = heap.segments();
  heap.free(block);
  heap.empty_cache();
  const auto event = [&](AllocationAction action, Bytes bytes) {
    return AllocationEvent{
        .action = action, .stack = stack, .address = address, .bytes = bytes, .time = Nanoseconds{7}};
  };
  EXPECT_EQ(trace.events, (std::vector<AllocationEvent>{event(AllocationAction::kSegmentAlloc, mib(2)),
                                                        event(AllocationAction::kAlloc, Bytes{1000}),
                                                        event(AllocationAction::kFreeRequested, Bytes{1000}),
                                                        event(AllocationAction::kFreeCompleted, Bytes{1000}),
                                                        event(AllocationAction::kSegmentFree, mib(2))}));
  ASSERT_EQ(trace.segments.size(), 1U);
  EXPECT_EQ(trace.segments[0].stack, stack);
  ASSERT_EQ(trace.segments[0].blocks.size(), 2U);
  EXPECT_EQ(trace.segments[0].blocks[0].stack, stack);
  EXPECT_EQ(trace.segments[0].blocks[0].requested, Bytes{1000});
  EXPECT_EQ(trace.segments[0].blocks[1].state, BlockState::kFree);
}

}  // namespace
}  // namespace plimsoll
