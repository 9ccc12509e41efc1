#include "allocator/pinned_host_heap.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

Bytes mib(int64_t n) { return n * kMiB; }

BlockId must(const Allocation& allocation) {
  EXPECT_TRUE(allocation.has_value());
  return allocation.value_or(kEmptyBlock);
}

TEST(PinnedHostHeap, RoundsToPowersOfTwo) {
  PinnedHostHeap heap;
  must(heap.alloc(Bytes{1}, kDefaultStream));
  must(heap.alloc(mib(100), kDefaultStream));
  EXPECT_EQ(heap.stats().requested.current, mib(100) + Bytes{1});
  EXPECT_EQ(heap.stats().allocated.current, mib(128) + Bytes{1});
  EXPECT_EQ(heap.stats().reserved.current, mib(128) + Bytes{1});
}

TEST(PinnedHostHeap, KeepsFreedBlocksForTheirOwnClass) {
  PinnedHostHeap heap;
  heap.free(must(heap.alloc(mib(100), kDefaultStream)));
  EXPECT_EQ(heap.stats().active.current, Bytes{0});
  must(heap.alloc(mib(64), kDefaultStream));  // another class: the 128 isn't touched
  EXPECT_EQ(heap.stats().reserved.current, mib(192));
  must(heap.alloc(mib(65), 3));
  EXPECT_EQ(heap.stats().reserved.current, mib(192));
}

TEST(PinnedHostHeap, AboveTheThresholdsNothingIsRoundedOrKept) {
  PinnedHostHeap heap(
      {.settings = {.pinned_max_round_threshold = mib(64), .pinned_max_cached_size = mib(90)}});
  const BlockId a = must(heap.alloc(mib(80), kDefaultStream));
  const BlockId b = must(heap.alloc(mib(100), kDefaultStream));
  EXPECT_EQ(heap.stats().reserved.current, mib(180));
  heap.free(a);
  heap.free(b);
  EXPECT_EQ(heap.stats().reserved.current, mib(80));
  must(heap.alloc(mib(70), kDefaultStream));  // takes the 80
  EXPECT_EQ(heap.stats().reserved.current, mib(80));
}

TEST(PinnedHostHeap, CopyingStreamHoldsTheBlock) {
  class Busy final : public StreamClock {
   public:
    Nanoseconds now() const override { return Nanoseconds{time}; }
    Nanoseconds busy_until(HeapStream) const override { return Nanoseconds{100}; }
    int64_t time = 0;
  } clock;
  PinnedHostHeap heap({.clock = &clock});
  const BlockId block = must(heap.alloc(mib(1), 0));
  heap.record_stream(block, 0);
  heap.free(block);
  EXPECT_EQ(heap.stats().active.current, mib(1));
  must(heap.alloc(mib(1), 0));
  EXPECT_EQ(heap.stats().reserved.current, mib(2));
  clock.time = 100;
  must(heap.alloc(mib(1), 0));
  EXPECT_EQ(heap.stats().reserved.current, mib(2));
  heap.finish();
  EXPECT_EQ(heap.stats().active.current, mib(2));
}

TEST(PinnedHostHeap, RunsOutOfMemory) {
  PinnedHostHeap heap({.capacity = mib(100)});
  must(heap.alloc(mib(40), kDefaultStream));
  const Allocation fails = heap.alloc(mib(33), kDefaultStream);
  ASSERT_FALSE(fails.has_value());
  EXPECT_EQ(fails.error().segment_wanted, mib(64));
  EXPECT_EQ(fails.error().device_free, mib(36));
}

}  // namespace
}  // namespace plimsoll
