#include "validation/torchtitan_rows.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

ReferenceRow row_of(std::string_view spec,
                    std::string_view peaks = R"({""ready"": 5, ""load"": 9, ""fwd1"": 7})") {
  const auto table =
      CsvTable::parse(fmt::format("id,spec,phase_peaks\na,\"{}\",\"{}\"\n", spec, peaks), "t.csv");
  EXPECT_TRUE(table) << table.error().to_text();
  return read_torchtitan_rows(*table).at(0);
}

TEST(TorchtitanRows, TheTracersOptionsAreFields) {
  const ReferenceRow row = row_of(
      R"({""tt"": ""010"", ""flavor"": ""70B"", ""world"": 16, ""B"": 2, ""S"": 512, ""ac"": ""full"", ""layers"": null})");
  EXPECT_EQ(row.unmapped, "");
  EXPECT_EQ(row.job.torchtitan.release, TorchtitanRelease::k010);
  EXPECT_EQ(row.job.model.name, "llama-3.1-70b");
  EXPECT_EQ(row.job.model.layers, std::nullopt);
  EXPECT_EQ(row.job.hardware.gpus, 16);
  EXPECT_EQ(row.job.batch.micro_batch, 2);
  EXPECT_EQ(row.job.recompute.kind, RecomputeKind::kFull);
}

// The tracer's load isn't torchtitan's.
TEST(TorchtitanRows, ReadyIsComparedWithLoading) {
  EXPECT_THAT(row_of("{}").phase_peaks, ElementsAre(Pair("fwd1", 7), Pair("load", 5)));
}

TEST(TorchtitanRows, WhatIsntKnownIsWhyARowIsNotMapped) {
  EXPECT_THAT(row_of(R"({""ac"": ""memory_budget""})").unmapped, HasSubstr("ac memory_budget"));
  EXPECT_THAT(row_of("[]").unmapped, HasSubstr("no JSON object"));
  EXPECT_THAT(row_of("{}", "{}").unmapped, HasSubstr("no peak"));
  EXPECT_THAT(row_of("{}", R"({""fwd1"": -1})").unmapped, HasSubstr("fwd1"));
}

}  // namespace
}  // namespace plimsoll
