#include "importers/estimate_json/estimate_json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string estimate_with(const std::string& allocated, const std::string& category = "7") {
  return fmt::format(R"({{
  "schema": "plimsoll.estimate/1",
  "phases": {{
    "load": {{
      "allocated_bytes": {},
      "active_bytes": 11, "reserved_bytes": 20,
      "peak_category_bytes": {{"parameter": {}}}
    }}
  }}
}})",
                     allocated, category);
}
std::string error_of(const std::string& text) {
  const Result<EstimatedMemory> memory = read_estimate_json(text, "plan.json");
  return memory ? "no error" : memory.error().to_text();
}

TEST(EstimateJson, ReadsThePhases) {
  const Result<EstimatedMemory> memory = read_estimate_json(estimate_with("10"), "plan.json");
  ASSERT_TRUE(memory) << memory.error().to_text();
  EXPECT_THAT(memory->phases, ElementsAre(EstimatedPhase{.name = "load",
                                                         .allocated = Bytes{10},
                                                         .active = Bytes{11},
                                                         .reserved = Bytes{20},
                                                         .categories = {{"parameter", Bytes{7}}}}));
}

TEST(EstimateJson, AFigureIsANumberOfBytes) {
  const std::string place = "plan.json:5:7, key \"phases.load.allocated_bytes\": ";
  EXPECT_EQ(error_of(estimate_with("-5")),
            place + "is -5\n  expected: a number of bytes from 0 to " + fmt::format("{}", kMaxQuantity - 1));
  EXPECT_THAT(error_of(estimate_with("1e30")), HasSubstr(place + "is no whole number, or too large"));
  EXPECT_THAT(error_of(estimate_with("10.5")), HasSubstr(place + "is no whole number, or too large"));
  EXPECT_THAT(error_of(estimate_with("18446744073709551615")), HasSubstr(place + "is too large"));
  EXPECT_THAT(error_of(estimate_with(fmt::format("{}", kMaxQuantity))), HasSubstr(place + "is too large"));
  EXPECT_THAT(error_of(estimate_with("null")), HasSubstr(place + "is no number"));
  EXPECT_THAT(error_of(estimate_with("\"10\"")), HasSubstr(place + "is no number"));
  EXPECT_THAT(error_of(estimate_with("NaN")), HasSubstr("plan.json:5:"));
  EXPECT_THAT(error_of(estimate_with("10", "-1")),
              HasSubstr("key \"phases.load.peak_category_bytes.parameter\": is -1"));
}

TEST(EstimateJson, ModulesOfThePeak) {
  const auto with = [](const std::string& modules) {
    std::string text = estimate_with("10");
    return text.replace(text.find("      \"peak_category_bytes\""), 0,
                        "      \"peak_modules\": " + modules + ",\n");
  };
  const Result<EstimatedMemory> memory =
      read_estimate_json(with(R"([{"module": "lm_head", "category": "parameter", "bytes": 7, "storages": 1},
               {"module": "", "category": "logits", "bytes": 3}])"),
                         "plan.json");
  ASSERT_TRUE(memory) << memory.error().to_text();
  EXPECT_THAT(memory->phases[0].modules, ElementsAre(EstimatedModule{"lm_head", "parameter", Bytes{7}},
                                                     EstimatedModule{"", "logits", Bytes{3}}));
  EXPECT_THAT(error_of(with("3")), HasSubstr("key \"phases.load.peak_modules\": is no list"));
  EXPECT_THAT(error_of(with("[3]")), HasSubstr("key \"phases.load.peak_modules[0]\": is no JSON object"));
  EXPECT_THAT(error_of(with("[{}]")), HasSubstr("key \"phases.load.peak_modules[0].module\": is missing"));
  EXPECT_THAT(error_of(with(R"([{"module": 1}])")),
              HasSubstr("plan.json:7:25, key \"phases.load.peak_modules[0].module\": is no text"));
  EXPECT_THAT(error_of(with(R"([{"module": "a", "category": "b", "bytes": -1}])")),
              HasSubstr("key \"phases.load.peak_modules[0].bytes\": is -1"));
}

TEST(EstimateJson, WhatIsNoEstimateSaysWhy) {
  EXPECT_THAT(error_of("{}"), HasSubstr("key \"schema\": is missing"));
  EXPECT_THAT(
      error_of(R"({"schema": "plimsoll.estimate/2"})"),
      HasSubstr("key \"schema\": is \"plimsoll.estimate/2\"\n  expected: plimsoll.estimate/1\n  hint: "));
  EXPECT_THAT(error_of(R"({"schema": 1})"), HasSubstr("key \"schema\": is no text"));
  EXPECT_THAT(error_of(R"({"schema": "plimsoll.estimate/1"})"), HasSubstr("key \"phases\": is missing"));
  EXPECT_THAT(error_of(R"({"schema": "plimsoll.estimate/1", "phases": {}})"),
              HasSubstr("key \"phases\": is empty"));
  EXPECT_THAT(error_of(R"({"schema": "plimsoll.estimate/1", "phases": 3})"),
              HasSubstr("key \"phases\": is no JSON object"));
  EXPECT_THAT(error_of(R"({"schema": "plimsoll.estimate/1", "phases": {"load": {}}})"),
              HasSubstr("key \"phases.load.allocated_bytes\": is missing"));
  for (const char* text : {"", "{", "[]"})
    EXPECT_THAT(error_of(text), testing::AllOf(HasSubstr("plan.json"), testing::Not(HasSubstr("exception"))));
}

TEST(EstimateJson, CutAnywhereIsAnError) {
  const std::string whole = estimate_with("10");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(read_estimate_json(whole.substr(0, length), "p")) << length;
}

TEST(EstimateJson, Sniffs) {
  EXPECT_TRUE(sniff_estimate_json(estimate_with("10")));
  EXPECT_TRUE(sniff_estimate_json("\n{\"schema\":\"plimsoll.estimate/2\"}"));
  EXPECT_FALSE(sniff_estimate_json("{\"schema\": \"plimsoll.explain/1\"}"));
  EXPECT_FALSE(sniff_estimate_json("a log that says \"plimsoll.estimate/1\""));
}

}  // namespace
}  // namespace plimsoll
