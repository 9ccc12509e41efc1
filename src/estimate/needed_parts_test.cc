#include "estimate/needed_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

// Parts that do what adds up to `enough`; how often it asks.
struct Adding {
  std::vector<int> values;
  int enough;
  int asked = 0;

  PartIndices needed(const PartIndices& suspects) {
    PartIndices parts(values.size());
    std::iota(parts.begin(), parts.end(), 0);
    return needed_parts(parts, suspects, [&](const std::vector<PartIndices>& lists) {
      std::vector<bool> does;
      for (const PartIndices& list : lists) {
        int sum = 0;
        for (const size_t part : list) sum += values[part];
        does.push_back(sum >= enough);
        ++asked;
      }
      return does;
    });
  }
};

TEST(NeededParts, TheLastOnesGoFirst) {
  EXPECT_THAT((Adding{.values = {5, 5, 5}, .enough = 10}.needed({0, 1, 2})), ElementsAre(0, 1));
  EXPECT_THAT((Adding{.values = {4, 5, 10}, .enough = 10}.needed({0, 1, 2})), ElementsAre(2));
}

TEST(NeededParts, OnlySuspectsGo) {
  EXPECT_THAT((Adding{.values = {5, 5, 5}, .enough = 5}.needed({0})), ElementsAre(1, 2));
  EXPECT_THAT((Adding{.values = {5, 5, 5}, .enough = 5}.needed({})), ElementsAre(0, 1, 2));
}

TEST(NeededParts, OneIsLeft) {
  EXPECT_THAT((Adding{.values = {5, 5}, .enough = 0}.needed({0, 1})), ElementsAre(0));
}

TEST(NeededParts, AllThatIsIdleGoesAtOnce) {
  Adding adding{.values = {9, 0, 0, 0, 0}, .enough = 9};
  EXPECT_THAT(adding.needed({0, 1, 2, 3, 4}), ElementsAre(0));
  EXPECT_EQ(adding.asked, 6);
}

}  // namespace
}  // namespace plimsoll
