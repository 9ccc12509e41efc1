#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/memory_profile.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

MemoryProfile small(Bytes activations) {
  return {.name = "run",
          .allocated = kGiB * 4 + activations,
          .reserved = kGiB * 6,
          .categories = {{"parameters", kGiB * 4}, {"activations", activations}},
          .places = {{"model.py:1 f", activations}}};
}

TEST(Compare, BiggestDifferenceFirst) {
  const std::string page = compare_page(small(kGiB), small(kGiB * 3), 10);
  EXPECT_THAT(page, HasSubstr("  allocated  5.00 GiB  7.00 GiB  +2.00 GiB\n"));
  EXPECT_THAT(page, HasSubstr("  reserved   6.00 GiB  6.00 GiB          0\n"));
  EXPECT_LT(page.find("activations"), page.find("parameters"));
}

TEST(Compare, EqualProfilesDifferInNothing) {
  const auto json = nlohmann::json::parse(compare_json(small(kGiB), small(kGiB)));
  for (const auto& row : json["categories"]) EXPECT_EQ(row["difference_bytes"], 0);
  for (const auto& row : json["places"]) EXPECT_EQ(row["difference_bytes"], 0);
}

TEST(Compare, AnEstimateIsItsHighestPhase) {
  const Result<MemoryProfile> profile = profile_of_estimate("plan.json", R"({
    "schema": "plimsoll.estimate/1",
    "phases": {
      "load": {"allocated_bytes": 10, "active_bytes": 10, "reserved_bytes": 20, "peak_category_bytes": {"parameter": 10}},
      "steady_step": {"allocated_bytes": 60, "active_bytes": 61, "reserved_bytes": 80,
        "peak_category_bytes": {"parameter": 10, "master_parameter": 5, "activation": 30, "logits": 15, "buffer": 0}}}})");
  ASSERT_TRUE(profile) << profile.error().to_text();
  EXPECT_EQ(profile->allocated, Bytes{60});
  EXPECT_EQ(profile->categories.at("parameters"), Bytes{15});
  EXPECT_EQ(profile->categories.at("activations"), Bytes{45});
}

TEST(Compare, WhatIsNoEstimateSaysWhatIs) {
  for (const char* text : {"", "{", "[]", "{}", R"({"schema": "plimsoll.estimate/1"})",
                           R"({"schema": "plimsoll.estimate/1", "phases": {"load": {}}})",
                           R"({"schema": "plimsoll.estimate/1", "phases": 3})"}) {
    const Result<MemoryProfile> profile = profile_of_estimate("plan.json", text);
    ASSERT_FALSE(profile) << text;
    EXPECT_THAT(profile.error().to_text(), HasSubstr("plan.json: is no estimate")) << text;
    EXPECT_THAT(profile.error().to_text(), HasSubstr("plimsoll estimate ... --json")) << text;
  }
}

}  // namespace
}  // namespace plimsoll
