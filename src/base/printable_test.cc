#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/result.h"
#include "base/text_table.h"

namespace plimsoll {
namespace {

TEST(Printable, OnlyControlCharactersAndBrokenUtf8AreEscaped) {
  EXPECT_EQ(printable("a\nb é € 𝄞"), "a\nb é € 𝄞");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("\t\r\x7f"), "\\x09\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b[1m"), "\\xc2\\x9b[1m");  // U+009B begins a terminal command
  EXPECT_EQ(printable("\x9b\xff\xe2\x82"), "\\x9b\\xff\\xe2\\x82");
}

TEST(Printable, ErrorsAndTablesAre) {
  const Error error{.position = {.file = "a\x1b", .key = "k\x07"}, .message = "m\x1b", .expected = "e\x1b"};
  EXPECT_EQ(error.to_text(), "a\\x1b, key \"k\\x07\": m\\x1b\n  expected: e\\x1b");
  TextTable table({"id", "n"}, {Align::kLeft, Align::kLeft});
  table.add({"\x1b[2J", "1"});
  EXPECT_EQ(table.to_text(), "id       n\n\\x1b[2J  1\n");
}

}  // namespace
}  // namespace plimsoll
