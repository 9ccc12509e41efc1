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

// Where both sides know them; else by line of code.
TEST(Compare, ByModuleOrWhyNot) {
  MemoryProfile a = small(kGiB), b = small(kGiB * 3);
  a.modules = {.how = "as estimated", .known = {{{"lm_head", "activations"}, kGiB}}};
  b.modules = {.named = {{{.names = {"lm_head"}, .role = "activations", .is_metadata = true}, kGiB * 2},
                         {{.names = {"f"}, .role = "activations"}, kGiB}}};
  const std::string page = compare_page(a, b, 10);
  EXPECT_THAT(page, HasSubstr("  by module           for                 A         B      B - A\n"
                              "  lm_head             activations  1.00 GiB  2.00 GiB  +1.00 GiB\n"
                              "  (module not known)  activations       0 B  1.00 GiB  +1.00 GiB\n"
                              "  modules are known of A as estimated, 100 % of the memory; of B by user "
                              "metadata, 67 % of the memory\n"));
  EXPECT_THAT(page, testing::Not(HasSubstr("by line of code")));
  const auto json = nlohmann::json::parse(compare_json(a, b))["modules"];
  EXPECT_EQ(json["rows"][0], (nlohmann::json{{"module", "lm_head"},
                                             {"category", "activations"},
                                             {"a_bytes", kGiB.value},
                                             {"b_bytes", 2 * kGiB.value},
                                             {"difference_bytes", kGiB.value}}));
  EXPECT_EQ(json["b"]["how"], "by user metadata");
  EXPECT_EQ(json["b"]["unknown_bytes"], kGiB.value);
  b.modules.named.clear();
  const std::string without = compare_page(a, b, 10);
  EXPECT_THAT(without, HasSubstr("by line of code"));
  EXPECT_THAT(without, HasSubstr("modules aren't compared: B's stacks name files, lines and functions, and "
                                 "neither its user metadata nor its ranges name a module of A"));
  EXPECT_TRUE(nlohmann::json::parse(compare_json(a, b))["modules"]["b"]["how"].is_null());
}

TEST(Compare, AnEstimateIsItsHighestPhase) {
  const MemoryProfile profile =
      profile_of_estimate("plan.json", {.phases = {{.name = "load",
                                                    .allocated = Bytes{10},
                                                    .active = Bytes{10},
                                                    .reserved = Bytes{20},
                                                    .categories = {{"parameter", Bytes{10}}}},
                                                   {.name = "steady_step",
                                                    .allocated = Bytes{60},
                                                    .active = Bytes{61},
                                                    .reserved = Bytes{80},
                                                    .categories = {{"parameter", Bytes{10}},
                                                                   {"master_parameter", Bytes{5}},
                                                                   {"activation", Bytes{30}},
                                                                   {"logits", Bytes{15}},
                                                                   {"buffer", Bytes{0}}}}}});
  EXPECT_EQ(profile.allocated, Bytes{60});
  EXPECT_EQ(profile.categories.at("parameters"), Bytes{15});
  EXPECT_EQ(profile.categories.at("activations"), Bytes{45});
}

}  // namespace
}  // namespace plimsoll
