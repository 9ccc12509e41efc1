#include "validation/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const Result<CsvTable> table = CsvTable::parse(text, "t.csv");
  return table ? "" : table.error().to_text();
}

TEST(Csv, CellsByColumnAndRow) {
  const Result<CsvTable> table =
      CsvTable::parse("\xEF\xBB\xBFid,words\r\na,\"x, \"\"y\"\"\"\r\n\nb,\n", "t.csv");
  ASSERT_TRUE(table) << table.error().to_text();
  ASSERT_EQ(table->rows(), 2u);
  EXPECT_EQ(table->at(0, "id"), "a");
  EXPECT_EQ(table->at(0, "words"), "x, \"y\"");
  EXPECT_EQ(table->at(1, "words"), "");
  EXPECT_EQ(table->at(1, "none"), "");
}

TEST(Csv, ATableIsRefusedWhereItIsNone) {
  EXPECT_THAT(error_of(""), HasSubstr("the file is empty"));
  EXPECT_THAT(error_of("id;model\na;b\n"), HasSubstr("t.csv:1: the columns have semicolons or tabs"));
  EXPECT_THAT(error_of("id\tmodel\n"), HasSubstr("semicolons or tabs"));
  EXPECT_THAT(error_of("id,B,S,B\n1,2,3,4\n"), HasSubstr("t.csv:1: column \"B\" is there twice"));
  EXPECT_THAT(error_of("id,B\n1\n"), HasSubstr("t.csv:2: the row has 1 cells"));
  EXPECT_THAT(error_of("id\n\"a\n"), HasSubstr("a quoted cell does not end"));
}

}  // namespace
}  // namespace plimsoll
