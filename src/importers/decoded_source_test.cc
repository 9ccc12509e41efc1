#include "importers/decoded_source.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using namespace std::string_view_literals;
using enum TextEncoding;

std::string decoded_text(std::string_view bytes) {
  const Result<std::string> text =
      decoded(ByteSource::of(bytes))->take_rest(1 << 24, {.message = "too long"});
  EXPECT_TRUE(text) << text.error().to_text();
  return text.value_or("");
}
std::string utf16(std::string_view ascii, bool is_big_endian) {
  std::string bytes;
  for (const char c : ascii) bytes += is_big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return bytes;
}

TEST(DecodedSource, IsToldByItsMark) {
  EXPECT_EQ(encoding_of("\xff\xfeK\0"sv), (EncodingSign{kUtf16LittleEndian, 2}));
  EXPECT_EQ(encoding_of("\xfe\xff\0K"sv), (EncodingSign{kUtf16BigEndian, 2}));
  EXPECT_EQ(encoding_of("\xef\xbb\xbfK"sv), (EncodingSign{kUtf8, 3}));
  EXPECT_EQ(encoding_of(""), EncodingSign());
}

TEST(DecodedSource, IsToldByItsZeros) {
  EXPECT_EQ(encoding_of("K\0i\0"sv), (EncodingSign{kUtf16LittleEndian, 0}));
  EXPECT_EQ(encoding_of("\0K\0i"sv), (EncodingSign{kUtf16BigEndian, 0}));
  EXPECT_EQ(encoding_of("\xe4\x4e\xe5\x65K\0\xe6\x65"sv).encoding, kUtf16LittleEndian);
  EXPECT_EQ(encoding_of("Killed"), EncodingSign());
  EXPECT_EQ(encoding_of("K\0i\0\0\0\0\0"sv), EncodingSign());  // no text
  EXPECT_EQ(encoding_of("K\0\0i"sv), EncodingSign());
  EXPECT_EQ(encoding_of("\x80\x04\x95\0\x01K\0J"sv), EncodingSign());
}

TEST(DecodedSource, BothOrdersAndPairs) {
  EXPECT_EQ(decoded_text("\xff\xfeK\0\xe4\0\xac\x20\x3d\xd8\x00\xde"sv), "K\u00e4\u20ac\U0001f600");
  EXPECT_EQ(decoded_text("\xfe\xff\0K\0\xe4\x20\xac\xd8\x3d\xde\x00"sv), "K\u00e4\u20ac\U0001f600");
  EXPECT_EQ(decoded_text(utf16("Killed\n", false)), "Killed\n");
  EXPECT_EQ(decoded_text(utf16("Killed\n", true)), "Killed\n");
  EXPECT_EQ(decoded_text("\xef\xbb\xbfKilled"), "Killed");
  EXPECT_EQ(decoded_text("Killed"), "Killed");
  EXPECT_EQ(decoded_text(""), "");
}

TEST(DecodedSource, WhatIsHalfIsReplacedOrLeftOut) {
  EXPECT_EQ(decoded_text("\xff\xfe\x3d\xd8K\0"sv), "\ufffdK");
  EXPECT_EQ(decoded_text("\xff\xfe\x00\xdeK\0"sv), "\ufffdK");
  EXPECT_EQ(decoded_text("\xff\xfeK\0\x3d\xd8"sv), "K\ufffd");
  EXPECT_EQ(decoded_text("\xff\xfeK\0i"sv), "K");
  EXPECT_EQ(decoded_text("\xff\xfe"sv), "");
}

// Longer than any piece of it that is held at once.
TEST(DecodedSource, OfAnyLength) {
  std::string text;
  while (text.size() < 3 * ByteSource::kWindow) text += "step " + std::to_string(text.size()) + "\n";
  EXPECT_EQ(decoded_text(utf16(text, false)), text);
}

}  // namespace
}  // namespace plimsoll
