#include "allocator/free_index.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

namespace plimsoll {
namespace {

using Key = std::pair<uint64_t, uint64_t>;  // size, address

std::vector<Key> keys_of(const FreeIndex& index) {
  std::vector<Key> keys;
  for (const FreeIndex::Entry& entry : index.entries()) keys.emplace_back(entry.size, entry.address);
  return keys;
}

// Enough blocks of few sizes that the bins are in many pieces.
TEST(FreeIndex, IsTheSetOfPyTorchWithManyBlocksInABin) {
  constexpr uint64_t kSizes[] = {1 << 20, (1 << 20) + 512, (1 << 20) + 1024, 2 << 20};
  constexpr int kAdded = 20000;
  std::mt19937_64 random(1);
  FreeIndex index;
  std::set<Key> expected;
  const auto check_first = [&](uint64_t size) {
    const auto first = expected.lower_bound({size, 0});
    const FreeIndex::Position found = index.first_at_least(size);
    ASSERT_EQ(found == FreeIndex::end(), first == expected.end());
    if (first == expected.end()) return;
    EXPECT_EQ(Key(index.at(found).size, index.at(found).address), *first);
  };
  for (int i = 0; i < kAdded; ++i) {
    const Key key(kSizes[random() % 4], (random() % (1 << 20)) * 512);
    if (expected.insert(key).second) index.insert({.size = key.first, .address = key.second});
    if (i % 50 == 0) check_first(kSizes[random() % 4]);
  }
  EXPECT_EQ(keys_of(index), std::vector<Key>(expected.begin(), expected.end()));
  while (!expected.empty()) {
    const uint64_t size = kSizes[random() % 4];
    auto victim = expected.lower_bound({size, (random() % (1 << 20)) * 512});
    if (victim == expected.end() || random() % 3 == 0) victim = expected.begin();
    index.erase(victim->first, victim->second);
    expected.erase(victim);
    if (expected.size() % 50 == 0) check_first(size);
    if (expected.size() % 5000 != 0) continue;
    EXPECT_EQ(keys_of(index), std::vector<Key>(expected.begin(), expected.end()));
  }
  EXPECT_TRUE(index.empty());
}

}  // namespace
}  // namespace plimsoll
