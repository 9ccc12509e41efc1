#include "runtime/large_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/resident_memory.h"

namespace plimsoll::runtime {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

TEST(LargeBlocks, ABlockIsTakenAgainForItsSize) {
  LargeBlocks blocks;
  void* const first = blocks.take(4 * kMebibyte);
  void* const second = blocks.take(3 * kMebibyte - 5);
  EXPECT_NE(first, second);
  blocks.give_back(first, 4 * kMebibyte);
  EXPECT_EQ(blocks.used_bytes(), 3 * kMebibyte);
  EXPECT_EQ(blocks.kept_bytes(), 4 * kMebibyte);
  EXPECT_EQ(blocks.take(4 * kMebibyte), first);
  EXPECT_EQ(blocks.kept_bytes(), 0U);
}

TEST(LargeBlocks, KeptAndUsedNeverExceedTheMostThatWasUsed) {
  LargeBlocks blocks;
  size_t most = 0;
  std::vector<std::pair<void*, size_t>> used;
  uint64_t state = 1;  // a fixed walk: takes and gives back of many sizes
  for (int i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const uint64_t random = state >> 33U;
    if (used.size() < 20 && (used.empty() || random % 2 == 0)) {
      const size_t bytes = (1 + random / 2 % 8) * kMebibyte;
      used.emplace_back(blocks.take(bytes), bytes);
      ASSERT_NE(used.back().first, nullptr);
    } else {
      const size_t at = random / 2 % used.size();
      blocks.give_back(used[at].first, used[at].second);
      used.erase(used.begin() + static_cast<ptrdiff_t>(at));
    }
    most = std::max(most, blocks.used_bytes());
    ASSERT_LE(blocks.used_bytes() + blocks.kept_bytes(), most);
  }
  EXPECT_GT(blocks.kept_bytes(), 0U);
}

// Sizes that don't repeat: nothing of them stays in the process but the last.
TEST(LargeBlocks, WhatIsDroppedIsNotResident) {
  LargeBlocks blocks;
  const Bytes before = resident_memory().now;
  for (size_t i = 0; i < 50; ++i) {
    const size_t bytes = (40 - i / 2) * kMebibyte + i;
    void* const block = blocks.take(bytes);
    std::memset(block, 1, bytes);
    blocks.give_back(block, bytes);
  }
  EXPECT_LE(resident_memory().now - before, 45 * kMiB);
}

}  // namespace
}  // namespace plimsoll::runtime
