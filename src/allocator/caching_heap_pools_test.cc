// Private pools of CachingHeap, and its counters under PyTorch's names.
#include <gtest/gtest.h>

#include <map>

#include "allocator/caching_heap.h"
#include "allocator/heap_test_helpers.h"

namespace plimsoll {
namespace {

TEST(PrivatePools, ServeOnlyWhatIsAllocatedWhileTheyAreBegun) {
  CachingHeap heap;
  heap.free(must(heap.alloc(mib(20), kDefaultStream)));
  const PoolIndex pool = heap.open_pool();
  heap.begin_pool(pool);
  const BlockId inside = must(heap.alloc(mib(20), kDefaultStream));  // the cached 20 MiB aren't its own
  heap.end_pool(pool);
  EXPECT_EQ(heap.stats().reserved.current, mib(40));
  heap.free(inside);
  must(heap.alloc(mib(20), kDefaultStream));
  must(heap.alloc(mib(20), kDefaultStream));  // nor are the pool's for others
  EXPECT_EQ(heap.stats().reserved.current, mib(60));
}

TEST(PrivatePools, TheInnermostThatTakesTheStreamServes) {
  CachingHeap heap;
  const PoolIndex outer = heap.open_pool(), inner = heap.open_pool();
  heap.begin_pool(outer);
  heap.begin_pool(inner, HeapStream{1});
  must(heap.alloc(kB512, 0));
  must(heap.alloc(kB512, 1));
  std::map<HeapStream, PoolIndex> pool_of;
  for (const TraceSegment& segment : heap.segments())
    pool_of[static_cast<HeapStream>(segment.stream)] = segment.pool;
  EXPECT_EQ(pool_of[0], outer);
  EXPECT_EQ(pool_of[1], inner);
}

TEST(PrivatePools, GiveSegmentsBackOnlyWithoutUsers) {
  CachingHeap heap;
  const PoolIndex pool = heap.open_pool();
  heap.free(must(heap.alloc_in(pool, mib(20), kDefaultStream)));
  heap.empty_cache();
  EXPECT_EQ(heap.stats().reserved.current, mib(20));
  heap.release_pool(pool);
  heap.empty_cache();
  EXPECT_EQ(heap.stats().reserved.current, Bytes{0});
}

TEST(PrivatePools, ThatNeverSplitGiveWholeSegments) {
  CachingHeap heap;
  const PoolIndex pool = heap.open_pool({.never_splits = true});
  EXPECT_EQ(heap.block_size(must(heap.alloc_in(pool, mib(5), kDefaultStream))), mib(20));
  EXPECT_EQ(heap.block_size(must(heap.alloc_in(pool, kB512, kDefaultStream))), mib(2));
}

TEST(PrivatePools, ThatServeWhenFullGiveCachedBlocksBeforeAnythingIsGivenBack) {
  SimulatedDevice device(mib(60));
  CachingHeap heap({.device = &device});
  const PoolIndex pool = heap.open_pool({.serves_when_full = true});
  heap.free(must(heap.alloc_in(pool, mib(40), kDefaultStream)));
  heap.free(must(heap.alloc(mib(20), kDefaultStream)));
  must(heap.alloc(mib(30), kDefaultStream));
  EXPECT_EQ(heap.stats().num_alloc_retries, 0);
  EXPECT_EQ(heap.stats().reserved.current, mib(60));
}

TEST(PrivatePools, WithAnAllocatorOfTheirOwnHaveNoExpandableSegments) {
  CachingHeap heap({.settings = {.expandable_segments = true}});
  const PoolIndex pool = heap.open_pool({.has_own_allocator = true});
  must(heap.alloc_in(pool, mib(5), kDefaultStream));
  ASSERT_EQ(heap.segments().size(), 1U);
  EXPECT_FALSE(heap.segments()[0].is_expandable);
}

// A stream that was told of in the capture has nothing to wait for after it.
TEST(PrivatePools, BlocksFreedInACaptureComeBackAfterIt) {
  CachingHeap heap;
  const PoolIndex pool = heap.open_pool();
  heap.begin_pool(pool);
  const BlockId block = must(heap.alloc(mib(30), 0));
  heap.record_stream(block, 1);
  heap.free(block);
  must(heap.alloc(kB512, 0));
  EXPECT_EQ(heap.stats().active.current, mib(30) + kB512);
  heap.end_pool(pool);
  must(heap.alloc(kB512, 0));
  EXPECT_EQ(heap.stats().active.current, kB512 * 2);
}

TEST(MemoryStats, CountSmallAndLargePoolApart) {
  CachingHeap heap({.settings = {.max_split_size = mib(50)}});
  const BlockId small = must(heap.alloc(Bytes{1000}, kDefaultStream));
  const BlockId large = must(heap.alloc(mib(5), kDefaultStream));
  const BlockId oversize = must(heap.alloc(mib(60), kDefaultStream));
  heap.free(large);
  heap.free(oversize);
  const MemoryStats stats = heap.memory_stats();
  EXPECT_EQ(stats.allocation.all, (MemoryStat{.current = 1, .peak = 3, .allocated = 3, .freed = 2}));
  EXPECT_EQ(stats.allocation.large_pool, (MemoryStat{.current = 0, .peak = 2, .allocated = 2, .freed = 2}));
  EXPECT_EQ(stats.allocated_bytes.small_pool,
            (MemoryStat{.current = 1024, .peak = 1024, .allocated = 1024, .freed = 0}));
  EXPECT_EQ(stats.requested_bytes.small_pool.current, 1000);
  EXPECT_EQ(stats.segment.all.current, 3);
  EXPECT_EQ(stats.reserved_bytes.large_pool.current, mib(80).value);
  EXPECT_EQ(stats.inactive_split.small_pool.current, 1);  // the rest of 2 MiB
  EXPECT_EQ(stats.inactive_split_bytes.small_pool.current, mib(2).value - 1024);
  // The rest of 20 MiB was split off and came back.
  EXPECT_EQ(stats.inactive_split.large_pool,
            (MemoryStat{.current = 0, .peak = 1, .allocated = 1, .freed = 1}));
  EXPECT_EQ(stats.oversize_allocations, (MemoryStat{.current = 0, .peak = 1, .allocated = 1, .freed = 1}));
  EXPECT_EQ(stats.oversize_segments.current, 1);
  heap.free(small);
  heap.empty_cache();
  EXPECT_EQ(heap.memory_stats().segment.all,
            (MemoryStat{.current = 0, .peak = 3, .allocated = 3, .freed = 3}));
  EXPECT_EQ(heap.memory_stats().num_sync_all_streams, 1);
}

TEST(MemoryStats, AreNamedAsInPython) {
  std::map<std::string, int64_t> entries;
  CachingHeap heap;
  must(heap.alloc(mib(3), kDefaultStream));
  for (const auto& [name, value] : memory_stat_entries(heap.memory_stats())) entries[name] = value;
  EXPECT_EQ(entries.at("allocated_bytes.all.peak"), mib(3).value);
  EXPECT_EQ(entries.at("segment.large_pool.allocated"), 1);
  EXPECT_EQ(entries.at("num_alloc_retries"), 0);
  EXPECT_EQ(entries.at("max_split_size"), -1);
  EXPECT_EQ(entries.size(), 9U * 3 * 4 + 2 * 4 + 6);
}

}  // namespace
}  // namespace plimsoll
