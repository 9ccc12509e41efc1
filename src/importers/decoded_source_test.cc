#include "importers/utf16.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using namespace std::string_view_literals;

TEST(Utf16, IsToldByItsMark) {
  EXPECT_TRUE(is_utf16("\xff\xfeK\0"sv));
  EXPECT_TRUE(is_utf16("\xfe\xff\0K"sv));
  EXPECT_FALSE(is_utf16("K\0i\0"sv));
  EXPECT_FALSE(is_utf16(""));
}

TEST(Utf16, BothOrdersAndPairs) {
  EXPECT_EQ(utf8_of_utf16("\xff\xfeK\0\xe4\0\xac\x20\x3d\xd8\x00\xde"sv), "K\u00e4\u20ac\U0001f600");
  EXPECT_EQ(utf8_of_utf16("\xfe\xff\0K\0\xe4\x20\xac\xd8\x3d\xde\x00"sv), "K\u00e4\u20ac\U0001f600");
}

TEST(Utf16, WhatIsHalfIsReplacedOrLeftOut) {
  EXPECT_EQ(utf8_of_utf16("\xff\xfe\x3d\xd8K\0"sv), "\ufffdK");
  EXPECT_EQ(utf8_of_utf16("\xff\xfeK\0i"sv), "K");
  EXPECT_EQ(utf8_of_utf16("\xff\xfe"sv), "");
}

}  // namespace
}  // namespace plimsoll
