#include <gtest/gtest.h>

#include "base/dtype.h"
#include "base/result.h"
#include "base/text_table.h"
#include "base/units.h"

namespace plimsoll {
namespace {

TEST(Units, ProductsSaturateInsteadOfWrapping) {
  EXPECT_TRUE((Bytes{kMaxQuantity} * 8).is_saturated());
  EXPECT_EQ(Bytes{kMaxQuantity} + Bytes{1}, Bytes{kMaxQuantity});
  EXPECT_EQ(round_up(Bytes{513}, Bytes{512}), Bytes{1024});
}

TEST(Units, Text) {
  EXPECT_EQ(to_gib_text(kGiB * 3 / 2), "1.50 GiB");
  EXPECT_EQ(to_text(Bytes{512}), "512 B");
  EXPECT_EQ(to_text(Bytes{1536}), "1.50 KiB");
  EXPECT_EQ(with_thousands(8030261248), "8,030,261,248");
  EXPECT_EQ(with_thousands(-123), "-123");
}

TEST(Units, BytesAreReadInTheSpellingsThatUsersType) {
  for (const char* text : {"6GiB", "6 GiB", "6gib", "6G", "6g", "6Gi", "6144M", "6144 MiB", "6442450944B",
                           "6442450944 bytes", "6291456k", "0.005859375T"})
    EXPECT_EQ(parse_bytes(text), kGiB * 6) << text;
  for (const char* text : {"6GB", "6 gb", "6000MB", "0.006TB"})
    EXPECT_EQ(parse_bytes(text), Bytes{6'000'000'000}) << text;
  for (const char* text : {"", "6", "G", "6 GiBs", "6GG", "6 Gbit", "nan G", "inf", "9999999P"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(Error, NamesPlaceExpectationAndHint) {
  const Error error{.position = {.file = "config.json", .key = "hidden_size", .line = 3, .column = 7},
                    .message = "is negative",
                    .expected = "an integer from 1 to 1048576",
                    .hint = "see docs"};
  EXPECT_EQ(error.to_text(),
            "config.json:3:7, key \"hidden_size\": is negative\n"
            "  expected: an integer from 1 to 1048576\n  hint: see docs");
}

TEST(DType, NamesRoundTrip) {
  EXPECT_EQ(dtype_from_name("torch.bfloat16"), DType::kBFloat16);
  EXPECT_EQ(name_of(DType::kFloat16), "fp16");
  EXPECT_FALSE(dtype_from_name("bf17").has_value());
}

TEST(TextTable, AlignsNumbersRight) {
  TextTable table({"what", "bytes"}, {Align::kLeft, Align::kRight});
  table.add({"a", "10"});
  table.add_rule();
  table.add({"total", "1000"});
  EXPECT_EQ(table.to_text(), "what   bytes\na         10\n------------\ntotal   1000\n");
}

}  // namespace
}  // namespace plimsoll
