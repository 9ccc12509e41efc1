#include "validation/reference_row.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "validation/validate.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

// A table of one row with its spec, in a folder of its own.
class ReferenceTable : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "spec.json") << R"({"eval": true})";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The columns that every row needs, with some of them changed.
  static std::map<std::string, std::string> columns(std::map<std::string, std::string> changed = {}) {
    std::map<std::string, std::string> all = {{"id", "row"},
                                              {"config_json", "c.json"},
                                              {"spec", "spec.json"},
                                              {"dtype", "bf16"},
                                              {"framework", "single"},
                                              {"optimizer", "adamw_foreach"},
                                              {"ckpt", "none"},
                                              {"attn", "sdpa"},
                                              {"B", "2"},
                                              {"S", "128"},
                                              {"GA", "1"},
                                              {"zero", "set_none"},
                                              {"world", "1"},
                                              {"phase_peaks", R"("{""fwd1"": 512}")"}};
    changed.merge(all);
    return changed;
  }

  Result<std::vector<ReferenceRow>> read(const std::map<std::string, std::string>& columns) const {
    std::string names, cells;
    for (const auto& [name, cell] : columns) {
      names += (names.empty() ? "" : ",") + name;
      cells += (cells.empty() ? "" : ",") + cell;
    }
    std::ofstream(folder_ / "table.csv") << names << "\n" << cells << "\n";
    return read_reference_rows(folder_ / "table.csv");
  }
  ReferenceRow row(const std::map<std::string, std::string>& changed = {}) const {
    Result<std::vector<ReferenceRow>> rows = read(columns(changed));
    EXPECT_TRUE(rows) << rows.error().to_text();
    return rows->at(0);
  }

  std::filesystem::path folder_;
};

TEST_F(ReferenceTable, ARowIsAJobAndItsPeaks) {
  const ReferenceRow read =
      row({{"framework", "fsdp2"}, {"world", "8"}, {"mp_param", "none"}, {"root_reshard", "default"}});
  EXPECT_EQ(read.unmapped, "");
  EXPECT_EQ(read.job.engine, DataParallelEngine::kFsdp2);
  EXPECT_EQ(read.job.fsdp2.param_dtype, std::nullopt);
  EXPECT_TRUE(read.job.fsdp2.reshard_after_forward);  // not said
  EXPECT_EQ(read.job.fsdp2.root_reshard_after_forward, std::nullopt);
  EXPECT_EQ(read.job.batch.micro_batch, 2);
  EXPECT_TRUE(read.job.loop.has_evaluation);
  EXPECT_EQ(read.phase_peaks.at("fwd1"), 512);
}

TEST_F(ReferenceTable, AWordThatIsNotKnownLeavesTheRowUnmapped) {
  for (const auto& [column, word] : std::map<std::string, std::string>{{"framework", "fsdp3"},
                                                                       {"attn", "flex"},
                                                                       {"dtype", "fp4"},
                                                                       {"optimizer", "shampoo"},
                                                                       {"ckpt", "some"},
                                                                       {"zero", "half"},
                                                                       {"B", "two"},
                                                                       {"clip", "much"},
                                                                       {"no_sync", "maybe"},
                                                                       {"use_cache", "static"}}) {
    EXPECT_EQ(row({{column, word}}).unmapped, fmt::format("{} {}", column, word));
  }
  EXPECT_THAT(row({{"spec", "gone.json"}}).unmapped, HasSubstr("gone.json can't be read"));
}

// Nothing measured is nothing met.
TEST_F(ReferenceTable, ARowWithoutPeaksIsNotExact) {
  EXPECT_THAT(row({{"phase_peaks", ""}}).unmapped, HasSubstr("no peak"));
  EXPECT_FALSE(RowComparison{}.is_exact());
}

TEST_F(ReferenceTable, AnotherTableIsRefused) {
  auto some = columns();
  some.erase("phase_peaks");
  const Result<std::vector<ReferenceRow>> rows = read(some);
  ASSERT_FALSE(rows);
  EXPECT_THAT(rows.error().message, HasSubstr("column \"phase_peaks\" is missing"));
}

TEST_F(ReferenceTable, WhatIsNoTableIsRefused) {
  const auto error_of = [](const std::filesystem::path& file) {
    const auto rows = read_reference_rows(file);
    return rows ? "" : rows.error().to_text();
  };
  const std::filesystem::path header_only = std::filesystem::path(testing::TempDir()) / "header_only.csv";
  std::ofstream(header_only) << "id,model,settings,quantity,peaks\n";
  EXPECT_THAT(error_of(header_only), HasSubstr("has no rows"));
  EXPECT_THAT(error_of(testing::TempDir()), HasSubstr("is a folder"));
  EXPECT_THAT(error_of("/dev/zero"), HasSubstr("is no regular file"));
}

}  // namespace
}  // namespace plimsoll
