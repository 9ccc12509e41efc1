#include "allocator/caching_heap.h"

#include <gtest/gtest.h>

#include "allocator/heap_test_helpers.h"
#include "allocator/lower_bound_heap.h"

namespace plimsoll {
namespace {

TEST(CachingHeap, RoundsToBlocksOf512) {
  CachingHeap heap;
  const BlockId one = must(heap.alloc(Bytes{1}, kDefaultStream));
  const BlockId two = must(heap.alloc(Bytes{513}, kDefaultStream));
  EXPECT_EQ(heap.block_size(one), kB512);
  EXPECT_EQ(heap.block_size(two), Bytes{1024});
  EXPECT_EQ(heap.stats().requested.current, Bytes{514});
  EXPECT_EQ(heap.stats().allocated.current, Bytes{1536});
  EXPECT_EQ(heap.block_address(two), heap.block_address(one) + 512);
}

TEST(CachingHeap, ZeroBytesTakeNothing) {
  CachingHeap heap;
  const BlockId block = must(heap.alloc(Bytes{0}, kDefaultStream));
  EXPECT_EQ(block, kEmptyBlock);
  heap.free(block);
  EXPECT_EQ(heap.stats(), HeapStats{});
}

TEST(CachingHeap, SegmentSizesByRequest) {
  const auto reserved_for = [](Bytes size) {
    CachingHeap heap;
    must(heap.alloc(size, kDefaultStream));
    return heap.stats().reserved.current;
  };
  EXPECT_EQ(reserved_for(kB512), mib(2));
  EXPECT_EQ(reserved_for(mib(1)), mib(2));
  EXPECT_EQ(reserved_for(mib(1) + Bytes{1}), mib(20));
  EXPECT_EQ(reserved_for(mib(10) - kB512), mib(20));
  EXPECT_EQ(reserved_for(mib(10)), mib(10));
  EXPECT_EQ(reserved_for(mib(10) + Bytes{1}), mib(12));
}

TEST(CachingHeap, SmallBlocksSplitDownTo512) {
  CachingHeap heap;
  const BlockId most = must(heap.alloc(mib(1), kDefaultStream));
  const BlockId rest = must(heap.alloc(mib(1) - kB512, kDefaultStream));
  EXPECT_EQ(heap.block_size(most), mib(1));
  EXPECT_EQ(heap.block_size(rest), mib(1) - kB512);
  EXPECT_EQ(heap.stats().inactive_split.current, kB512);
  must(heap.alloc(kB512, kDefaultStream));  // the last piece of the segment
  EXPECT_EQ(heap.stats().reserved.current, mib(2));
  EXPECT_EQ(heap.stats().inactive_split.current, Bytes{0});
}

TEST(CachingHeap, LargeBlocksSplitOnlyWhenMoreThanOneMiBIsLeft) {
  CachingHeap heap;
  const BlockId whole =
      must(heap.alloc(mib(11), kDefaultStream));  // segment of 12 MiB, 1 MiB left: kept together
  EXPECT_EQ(heap.block_size(whole), mib(12));
  EXPECT_EQ(heap.stats().allocated.current, mib(12));
  EXPECT_EQ(heap.stats().requested.current, mib(11));
  const BlockId cut = must(heap.alloc(mib(11) - kB512, kDefaultStream));
  EXPECT_EQ(heap.block_size(cut), mib(11) - kB512);
  EXPECT_EQ(heap.stats().inactive_split.current, mib(1) + kB512);
}

TEST(CachingHeap, BestFitThenLowestAddress) {
  CachingHeap heap;
  const BlockId a = must(heap.alloc(mib(40), kDefaultStream));
  const BlockId b = must(heap.alloc(mib(30), kDefaultStream));
  const BlockId c = must(heap.alloc(mib(30), kDefaultStream));
  const uint64_t address_of_b = heap.block_address(b);
  heap.free(c);
  heap.free(b);
  heap.free(a);
  EXPECT_EQ(heap.block_address(must(heap.alloc(mib(29), kDefaultStream))), address_of_b);
  EXPECT_EQ(heap.stats().reserved.current, mib(100));
}

TEST(CachingHeap, NeighboursMergeInAnyOrder) {
  CachingHeap heap;
  BlockId blocks[4];
  for (BlockId& block : blocks) block = must(heap.alloc(kB512 * 1024, kDefaultStream));  // a segment of 2 MiB
  heap.free(blocks[0]);
  heap.free(blocks[2]);
  EXPECT_EQ(heap.num_blocks(), 4U);
  heap.free(blocks[1]);
  EXPECT_EQ(heap.num_blocks(), 2U);
  EXPECT_EQ(heap.stats().inactive_split.current, kB512 * 3072);
  heap.free(blocks[3]);
  EXPECT_EQ(heap.num_blocks(), 1U);
  EXPECT_EQ(heap.stats().inactive_split.current, Bytes{0});
  EXPECT_EQ(heap.stats().reserved.current, mib(2));
}

TEST(CachingHeap, FreeBlockServesItsOwnStreamOnly) {
  CachingHeap heap;
  heap.free(must(heap.alloc(mib(30), 0)));
  must(heap.alloc(mib(30), 1));
  EXPECT_EQ(heap.stats().reserved.current, mib(60));
  must(heap.alloc(mib(30), 0));
  EXPECT_EQ(heap.stats().reserved.current, mib(60));
}

TEST(CachingHeap, GivesCachedSegmentsBackBeforeItFails) {
  SimulatedDevice device(mib(100));
  CachingHeap heap({.device = &device});
  const BlockId small = must(heap.alloc(kB512, kDefaultStream));
  heap.free(must(heap.alloc(mib(60), kDefaultStream)));
  const BlockId block = must(heap.alloc(mib(80), kDefaultStream));  // 2 + 60 + 80 is too much
  EXPECT_EQ(heap.stats().num_alloc_retries, 1);
  EXPECT_EQ(heap.stats().reserved.current, mib(82));
  EXPECT_EQ(heap.stats().reserved.peak, mib(82));

  const Allocation fails = heap.alloc(mib(30), kDefaultStream);
  ASSERT_FALSE(fails.has_value());
  EXPECT_EQ(fails.error().requested, mib(30));
  EXPECT_EQ(fails.error().segment_wanted, mib(30));
  EXPECT_EQ(fails.error().reserved, mib(82));
  EXPECT_EQ(fails.error().allocated, mib(80) + kB512);
  EXPECT_EQ(fails.error().device_free, mib(18));
  EXPECT_EQ(heap.stats().num_ooms, 1);
  heap.free(small);
  heap.free(block);
  must(heap.alloc(mib(100), kDefaultStream));
}

TEST(CachingHeap, PartlyUsedSegmentsStayWhenMemoryRunsOut) {
  SimulatedDevice device(mib(40));
  CachingHeap heap({.device = &device});
  const BlockId kept = must(heap.alloc(mib(4), kDefaultStream));
  heap.free(must(heap.alloc(mib(16), kDefaultStream)));  // in the same segment of 20 MiB
  EXPECT_FALSE(heap.alloc(mib(22), kDefaultStream).has_value());
  heap.free(kept);
  must(heap.alloc(mib(22), kDefaultStream));
}

TEST(CachingHeap, AbsurdRequestFailsWithoutLimit) {
  CachingHeap heap;
  EXPECT_FALSE(heap.alloc(Bytes{kMaxQuantity}, kDefaultStream).has_value());
  EXPECT_EQ(heap.stats().reserved.peak, Bytes{0});
}

TEST(LowerBoundHeap, ReservesWhatLives) {
  LowerBoundHeap heap(mib(1));
  const BlockId block = *heap.alloc(Bytes{1000}, kDefaultStream);
  EXPECT_EQ(heap.stats().reserved.current, Bytes{1024});
  EXPECT_FALSE(heap.alloc(mib(1), kDefaultStream).has_value());
  heap.free(block);
  EXPECT_TRUE(heap.alloc(mib(1), kDefaultStream).has_value());
  EXPECT_EQ(heap.stats().allocated.peak, mib(1));
}

}  // namespace
}  // namespace plimsoll
