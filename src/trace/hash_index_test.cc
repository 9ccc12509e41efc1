#include "trace/hash_index.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace plimsoll {
namespace {

std::optional<uint32_t> find(const HashIndex& index, const std::vector<uint64_t>& things, uint64_t hash,
                             uint64_t thing) {
  return index.find(hash, [&](uint32_t id) { return things[id] == thing; });
}

// Against a map, with hashes that hardly differ, so that most places are taken by others.
TEST(HashIndex, FindsWhatWasAddedAndNothingElse) {
  for (const uint64_t hashes : {uint64_t{1}, uint64_t{7}, uint64_t{1} << 20U}) {
    HashIndex index;
    std::vector<uint64_t> things;
    std::unordered_map<uint64_t, uint32_t> expected;
    std::mt19937_64 random(1);
    for (int i = 0; i < 2000; ++i) {
      const uint64_t thing = random() % 1000, hash = thing % hashes << 33U;
      const auto known = expected.find(thing);
      const std::optional<uint32_t> found = find(index, things, hash, thing);
      ASSERT_EQ(found.has_value(), known != expected.end());
      if (found) {
        EXPECT_EQ(*found, known->second);
        continue;
      }
      expected.emplace(thing, static_cast<uint32_t>(things.size()));
      index.add(hash, static_cast<uint32_t>(things.size()));
      things.push_back(thing);
    }
    EXPECT_EQ(things.size(), expected.size());
  }
}

}  // namespace
}  // namespace plimsoll
