// What a replay asks of a heap at an address, with so many blocks and ranges that looking at each would show.
#include <gtest/gtest.h>

#include "allocator/caching_heap.h"
#include "allocator/recorded_device.h"

namespace plimsoll {
namespace {

constexpr uint64_t kBase = uint64_t{0x7f} << 40;
constexpr uint64_t kSegment = uint64_t{20} << 20;
constexpr uint64_t kPage = uint64_t{2} << 20;

uint64_t segment_at(uint64_t i) { return kBase + 2 * i * kSegment; }
Bytes half_a_segment() { return Bytes{kSegment / 2}; }

TEST(CachingHeapRecorded, BlocksAreFoundByAddressAmongMany) {
  constexpr uint64_t kSegments = 3000;  // looked at one by one, millions
  RecordedDevice device(kSegment);
  CachingHeap heap({.device = &device});
  for (uint64_t i = 0; i < kSegments; ++i) {
    ASSERT_TRUE(device.take(segment_at(i), kSegment));
    heap.add_segment(0, kDefaultStream, segment_at(i), kSegment);
  }
  std::vector<BlockId> blocks;
  for (uint64_t i = kSegments; i-- > 0;) {  // best fit would take the lowest
    const uint64_t address = segment_at(i) + kSegment / 2;
    const auto block = heap.alloc_at(0, half_a_segment(), kDefaultStream, address);
    ASSERT_TRUE(block) << i;
    EXPECT_EQ(heap.block_address(*block), address);
    EXPECT_FALSE(heap.alloc_at(0, half_a_segment(), kDefaultStream, address)) << i;
    EXPECT_FALSE(heap.release_at(0, kDefaultStream, segment_at(i), kSegment)) << i;
    blocks.push_back(*block);
  }
  EXPECT_FALSE(heap.alloc_at(0, half_a_segment(), kDefaultStream + 1, segment_at(0)));
  for (const BlockId block : blocks) heap.free(block);
  for (uint64_t i = 0; i < kSegments; ++i)
    EXPECT_TRUE(heap.release_at(0, kDefaultStream, segment_at(i), kSegment)) << i;
  EXPECT_EQ(heap.num_blocks(), 0U);
  EXPECT_EQ(heap.stats().reserved.current, Bytes{0});
}

TEST(CachingHeapRecorded, PagesAreMappedAndUnmappedInManyRanges) {
  constexpr uint64_t kPages = 5000;
  const auto page_at = [](uint64_t i) { return kBase + 3 * i * kPage; };
  CachingHeap heap({.settings = {.expandable_segments = true}});
  for (uint64_t i = 0; i < kPages; ++i) {
    ASSERT_TRUE(heap.map_at(0, true, kDefaultStream, page_at(i), kPage)) << i;
    EXPECT_FALSE(heap.map_at(0, true, kDefaultStream, page_at(i), kPage)) << "is mapped already";
  }
  EXPECT_EQ(heap.segments().size(), kPages);
  for (uint64_t i = 0; i < kPages; ++i) {
    ASSERT_TRUE(heap.unmap_at(0, kDefaultStream, page_at(i), kPage)) << i;
    EXPECT_FALSE(heap.unmap_at(0, kDefaultStream, page_at(i), kPage)) << i;
  }
  EXPECT_TRUE(heap.segments().empty());
  EXPECT_EQ(heap.stats().reserved.current, Bytes{0});
}

}  // namespace
}  // namespace plimsoll
