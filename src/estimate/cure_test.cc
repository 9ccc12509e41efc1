#include "estimate/cure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// A job that takes so much, and changes that each save a fixed number of GiB of it, alone and together. Of 80
// GiB more than 78 is at risk.
class Bench {
 public:
  explicit Bench(int64_t gib) : gib_(gib) {}

  Bench& change(const std::string& setting, Price rank, int64_t saves, bool is_tried = true) {
    const Candidate c{.settings = {setting},
                      .price = "price of " + setting,
                      .rank = rank,
                      .aim = kGiB * saves,
                      .is_last_resort = !is_tried};
    saves_[setting] = saves;
    tried_.push_back({.candidate = c});
    if (is_tried) tried_.back().change = change_for(c);
    return *this;
  }

  std::optional<Change> cure() {
    return find_cure({.now = {.gpu = fit(gib_)},
                      .tried = tried_,
                      .is_possible = [&](const Candidate& c) { return is_possible(c); },
                      .estimate =
                          [&](const std::vector<Candidate>& candidates) {
                            std::vector<std::optional<Change>> changes;
                            for (const Candidate& c : candidates) changes.emplace_back(change_for(c));
                            return changes;
                          }});
  }

 private:
  static Fit fit(int64_t gib) { return gib > 80 ? Fit::kOutOfMemory : gib > 78 ? Fit::kAtRisk : Fit::kFits; }
  // Every field once.
  static bool is_possible(const Candidate& c) {
    std::set<std::string> fields;
    for (const std::string& setting : c.settings)
      if (!fields.insert(field_of(setting)).second) return false;
    return true;
  }
  Change change_for(const Candidate& c) const {
    EXPECT_TRUE(is_possible(c));
    int64_t saved = 0;
    for (const std::string& setting : c.settings) saved += saves_.at(setting);
    return {.settings = c.settings, .price = c.price, .saved = kGiB * saved, .gpu = fit(gib_ - saved)};
  }

  int64_t gib_;
  std::map<std::string, int64_t> saves_;
  std::vector<Tried> tried_;
};

TEST(Cure, AChangeThatFitsGoesBeforeACheaperOneAtRisk) {
  const auto cure = Bench(90)
                        .change("a=1", Price::kNothing, 11)  // at risk
                        .change("b=1", Price::kMoreCompute, 20)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, ElementsAre("b=1"));
  EXPECT_EQ(cure->gpu, Fit::kFits);
}

TEST(Cure, IsAtRiskOnlyWhereNothingFits) {
  const auto cure = Bench(90).change("a=1", Price::kNothing, 4).change("b=1", Price::kSlower, 7).cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, UnorderedElementsAre("a=1", "b=1"));
  EXPECT_EQ(cure->gpu, Fit::kAtRisk);
}

TEST(Cure, OfAJobAtRiskFits) {
  EXPECT_FALSE(Bench(80).change("a=1", Price::kNothing, 1).cure());
  EXPECT_TRUE(Bench(80).change("a=1", Price::kNothing, 2).cure());
}

TEST(Cure, AFieldHasOneValueTheOneThatSavesMore) {
  const auto cure = Bench(100)
                        .change("mode=some", Price::kSomeCompute, 5)
                        .change("mode=all", Price::kMoreCompute, 15)
                        .change("loss=pieces", Price::kSomeCompute, 8)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, UnorderedElementsAre("mode=all", "loss=pieces"));
}

TEST(Cure, SeveralThatCostLittleGoBeforeOneThatCostsMore) {
  const auto cure = Bench(100)
                        .change("a=1", Price::kNothing, 12)
                        .change("b=1", Price::kMoreCompute, 12)
                        .change("gpus=8", Price::kMoreHardware, 50)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, ElementsAre("a=1", "b=1"));
  EXPECT_EQ(cure->price, "price of a=1; price of b=1");
}

TEST(Cure, TakesNoMoreThanItNeeds) {
  const auto cure = Bench(100)
                        .change("idle=1", Price::kNothing, 0)
                        .change("a=1", Price::kNothing, 12)
                        .change("b=1", Price::kSomeCompute, 12)
                        .change("c=1", Price::kMoreCompute, 5)
                        .change("d=1", Price::kMoreCompute, 6)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, ElementsAre("a=1", "b=1"));
}

// Not estimated alone: sharding with offload on top of it, when sharding doesn't do.
TEST(Cure, LastResortsComeAfterTheOthers) {
  const auto cure_of = [](int64_t gib) {
    return Bench(gib)
        .change("engine=offloaded", Price::kMoreHardware, 100, false)
        .change("mode=all", Price::kMoreCompute, 40)
        .change("engine=sharded", Price::kMoreHardware, 50)
        .cure();
  };
  ASSERT_TRUE(cure_of(200));
  EXPECT_THAT(cure_of(200)->settings, ElementsAre("mode=all", "engine=offloaded"));
  ASSERT_TRUE(cure_of(160));
  EXPECT_THAT(cure_of(160)->settings, ElementsAre("mode=all", "engine=sharded"));
}

TEST(Cure, OfTooLargeAJobThereIsNone) {
  EXPECT_FALSE(Bench(500).change("a=1", Price::kNothing, 4).change("b=1", Price::kSlower, 7).cure());
  EXPECT_FALSE(Bench(500).cure());
}

TEST(Cure, PricesAreSaidOnceAndNothingIsNot) {
  EXPECT_EQ(joined_prices({"nothing, it is faster too", "slow", "slow", "dear"}), "slow; dear");
  EXPECT_EQ(joined_prices({"nothing"}), "nothing");
}

}  // namespace
}  // namespace plimsoll
