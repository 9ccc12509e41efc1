#include "hardware/name_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NameMatch, NamesAreComparedWithoutCaseAndSpaces) {
  EXPECT_EQ(normalized_name("NVIDIA H100_80GB"), "nvidia-h100-80gb");
}

TEST(NameMatch, EditDistance) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("h100", "h100"), 0);
  EXPECT_EQ(edit_distance("h10", "h100"), 1);
  EXPECT_EQ(edit_distance("rtx-4090", "rtx-3090"), 1);
}

TEST(NameMatch, NamesThatHoldItComeFirst) {
  EXPECT_THAT(close_matches("a100", {"a10", "a100-40gb", "a100-80gb", "t4"}),
              ElementsAre("a100-40gb", "a100-80gb", "a10"));
  EXPECT_THAT(close_matches("rtx-4091", {"rtx-3090", "rtx-4090"}), ElementsAre("rtx-4090", "rtx-3090"));
}

TEST(NameMatch, NothingIsCloseToNothing) {
  EXPECT_THAT(close_matches("", {"a10"}), IsEmpty());
  EXPECT_THAT(close_matches(std::string(1000, 'a'), {"a10"}), IsEmpty());
}

}  // namespace
}  // namespace plimsoll
