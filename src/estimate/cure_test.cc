#include "estimate/cure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

  Bench& change(const std::string& setting, Price rank, int64_t saves, Role role = Role::kRow) {
    const Candidate c{.settings = {setting}, .price = "price of " + setting, .rank = rank, .role = role};
    saves_[setting] = saves;
    tried_.push_back({.candidate = c});
    if (role == Role::kRow) tried_.back().change = change_for(c);
    return *this;
  }
  // Both together save so much less.
  Bench& hinders(const std::string& a, const std::string& b, int64_t gib) {
    hindrances_.push_back({a, b, gib});
    return *this;
  }
  Bench& excludes(const std::string& a, const std::string& b) {
    exclusions_.push_back({a, b, 0});
    return *this;
  }
  Bench& needs(const std::string& a, const std::string& b) {
    needs_[a] = b;
    return *this;
  }
  Bench& host(int64_t gib) {
    host_gib_ = gib;
    return *this;
  }
  Bench& frees_host(const std::string& setting, int64_t gib) {
    host_saves_[setting] = gib;
    for (Tried& t : tried_) {
      if (has(t.candidate, setting)) t.candidate.takes_from_host = true;
      if (t.change) t.change = change_for(t.candidate);
    }
    return *this;
  }
  int estimates() const { return estimates_; }

  std::optional<Change> cure() {
    return find_cure({.now = {.gpu = fit(gib_), .host = fit(host_gib_)},
                      .device_limit = kGiB * 80,
                      .tried = tried_,
                      .is_possible = [&](const Candidate& c) { return is_possible(c); },
                      .estimate =
                          [&](const std::vector<Candidate>& candidates) {
                            std::vector<std::optional<Change>> changes;
                            for (const Candidate& c : candidates) changes.emplace_back(change_for(c));
                            estimates_ += static_cast<int>(candidates.size());
                            return changes;
                          }});
  }

 private:
  static Fit fit(int64_t gib) { return gib > 80 ? Fit::kOutOfMemory : gib > 78 ? Fit::kAtRisk : Fit::kFits; }
  struct Pair {
    std::string a, b;
    int64_t gib;
    bool is_in(const Candidate& c) const { return has(c, a) && has(c, b); }
  };
  static bool has(const Candidate& c, const std::string& setting) {
    return std::ranges::find(c.settings, setting) != c.settings.end();
  }
  // Every field once.
  bool is_possible(const Candidate& c) const {
    std::set<std::string> fields;
    for (const std::string& setting : c.settings) {
      if (!fields.insert(field_of(setting)).second) return false;
      if (needs_.contains(setting) && !has(c, needs_.at(setting))) return false;
    }
    return std::ranges::none_of(exclusions_, [&](const Pair& pair) { return pair.is_in(c); });
  }
  Change change_for(const Candidate& c) const {
    EXPECT_TRUE(is_possible(c));
    int64_t saved = 0, host_saved = 0;
    for (const std::string& setting : c.settings) {
      saved += saves_.at(setting);
      if (host_saves_.contains(setting)) host_saved += host_saves_.at(setting);
    }
    for (const Pair& pair : hindrances_)
      if (pair.is_in(c)) saved -= pair.gib;
    return {.settings = c.settings,
            .price = c.price,
            .wanted = kGiB * (gib_ - saved),
            .saved = kGiB * saved,
            .host_saved = kGiB * host_saved,
            .gpu = fit(gib_ - saved),
            .host = fit(host_gib_ - host_saved)};
  }

  int64_t gib_, host_gib_ = 0;
  int estimates_ = 0;
  std::map<std::string, int64_t> saves_, host_saves_;
  std::map<std::string, std::string> needs_;
  std::vector<Pair> hindrances_, exclusions_;
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

// A way goes no further than it takes, alone and with others.
TEST(Cure, OfAWayTheFirstStepThatDoes) {
  const auto settings_of = [](int64_t gib, int64_t other) {
    Bench bench(gib);
    bench.change("micro=16", Price::kSomeCompute, 20);
    for (const auto& [micro, saves] : {std::pair{8, 30}, {4, 35}, {2, 38}, {1, 39}})
      bench.change("micro=" + std::to_string(micro), Price::kSomeCompute, saves, Role::kStep);
    const auto cure = bench.change("mode=all", Price::kMoreCompute, other).cure();
    return cure ? cure->settings : std::vector<std::string>();
  };
  EXPECT_THAT(settings_of(95, 0), ElementsAre("micro=16"));
  EXPECT_THAT(settings_of(113, 0), ElementsAre("micro=4"));
  EXPECT_THAT(settings_of(117, 0), ElementsAre("micro=1"));
  EXPECT_THAT(settings_of(120, 10), ElementsAre("micro=4", "mode=all"));
  EXPECT_THAT(settings_of(128, 0), ElementsAre());
}

// The later ones are enough without an earlier one.
TEST(Cure, LeavesOutWhatTheOthersDoWithout) {
  const auto cure = Bench(100)
                        .change("a=1", Price::kNothing, 4)
                        .change("b=1", Price::kSomeCompute, 5)
                        .change("c=1", Price::kOtherKernel, 3)
                        .change("d=1", Price::kMoreCompute, 18)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings,
              ElementsAre("a=1", "d=1"));  // c is dearer than a, a and b do less than it takes
}

TEST(Cure, OrderOfCosts) {
  Bench bench(100);
  const auto settings = [&] { return bench.cure()->settings; };
  bench.change("gpus=8", Price::kMoreHardware, 50);
  EXPECT_THAT(settings(), ElementsAre("gpus=8"));
  bench.change("sequence=512", Price::kShorterSequence, 50);
  EXPECT_THAT(settings(), ElementsAre("sequence=512"));
  bench.change("optimizer=8bit", Price::kOtherOptimizer, 50);
  EXPECT_THAT(settings(), ElementsAre("optimizer=8bit"));
  bench.change("x=1", Price::kSlower, 11).change("y=1", Price::kSlower, 12);
  EXPECT_THAT(settings(), ElementsAre("x=1", "y=1"));
  bench.change("a=1", Price::kNothing, 11).change("b=1", Price::kMoreCompute, 11);
  EXPECT_THAT(settings(), ElementsAre("a=1", "b=1"));
  bench.change("c=1", Price::kMoreCompute, 22);
  EXPECT_THAT(settings(), ElementsAre("c=1"));
}

// What trains the same goes before a shorter sequence on more GPUs.
TEST(Cure, MoreGpusWithTheSameTraining) {
  const auto cure = Bench(150)
                        .change("a=1", Price::kSlower, 30)
                        .change("sequence=512", Price::kShorterSequence, 30)
                        .change("gpus=8", Price::kMoreHardware, 45)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, ElementsAre("a=1", "gpus=8"));
}

TEST(Cure, WhatMeansSomethingWithOthersOnlyComesWithThem) {
  const auto cure_of = [](int64_t gib) {
    return Bench(gib)
        .needs("offload=1", "gpus=8")
        .change("offload=1", Price::kSlower, 60, Role::kAddition)
        .change("mode=all", Price::kMoreCompute, 40)
        .change("gpus=8", Price::kMoreHardware, 50)
        .cure();
  };
  ASSERT_TRUE(cure_of(225));
  EXPECT_THAT(cure_of(225)->settings, ElementsAre("mode=all", "offload=1", "gpus=8"));
  ASSERT_TRUE(cure_of(160));
  EXPECT_THAT(cure_of(160)->settings, ElementsAre("mode=all", "gpus=8"));
}

TEST(Cure, WhatHurtsIsLeftOut) {
  const auto cure = Bench(100)
                        .change("bad=1", Price::kNothing, -5)
                        .change("a=1", Price::kSomeCompute, 12)
                        .change("b=1", Price::kMoreCompute, 11)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, ElementsAre("a=1", "b=1"));
}

// Each helps, but not both: the other one alone would lead to a dearer circle.
TEST(Cure, WhatHurtsInCompanyIsLeftOutOfIt) {
  const auto cure = Bench(100)
                        .change("pieces=1", Price::kSomeCompute, 4)
                        .change("mode=all", Price::kMoreCompute, 15)
                        .change("engine=sharded", Price::kSlower, 8)
                        .needs("offload=1", "engine=sharded")
                        .change("offload=1", Price::kSlower, 50, Role::kAddition)
                        .hinders("pieces=1", "engine=sharded", 10)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, ElementsAre("mode=all", "engine=sharded"));
}

// views mean nothing to another engine, 8-bit states aren't possible with it.
TEST(Cure, WhatExcludesAnotherDisplacesIt) {
  const auto bench = [](int64_t gib) {
    return Bench(gib)
        .change("views=1", Price::kNothing, 1)
        .change("mode=all", Price::kMoreCompute, 10)
        .change("engine=sharded", Price::kSlower, 30)
        .change("optimizer=8bit", Price::kOtherOptimizer, 45)
        .excludes("views=1", "engine=sharded")
        .excludes("engine=sharded", "optimizer=8bit")
        .cure();
  };
  ASSERT_TRUE(bench(117));
  EXPECT_THAT(bench(117)->settings, ElementsAre("mode=all", "engine=sharded"));
  ASSERT_TRUE(bench(132));
  EXPECT_THAT(bench(132)->settings, ElementsAre("mode=all", "optimizer=8bit"));
}

TEST(Cure, OfAHostThatIsShort) {
  const auto cure = Bench(60)
                        .host(100)
                        .change("keep=1", Price::kNothing, -30)
                        .change("gpus=8", Price::kMoreHardware, 10)
                        .frees_host("keep=1", 90)
                        .frees_host("gpus=8", 50)
                        .cure();
  ASSERT_TRUE(cure);
  EXPECT_THAT(cure->settings, ElementsAre("gpus=8"));
  Bench hopeless(60);
  hopeless.host(100).change("a=1", Price::kNothing, 20).change("b=1", Price::kSlower, 5);
  EXPECT_FALSE(hopeless.cure());
  EXPECT_EQ(hopeless.estimates(), 0);  // none of them takes from the host
}

// With twenty changes, of which it takes five.
TEST(Cure, TakesFewEstimates) {
  Bench bench(100);
  for (int i = 0; i < 20; ++i) bench.change("c" + std::to_string(i) + "=1", Price::kSomeCompute, 5);
  const auto cure = bench.cure();
  ASSERT_TRUE(cure);
  EXPECT_EQ(cure->settings.size(), 5);
  EXPECT_LT(bench.estimates(), 25);
}

TEST(Cure, OfTooLargeAJobThereIsNone) {
  EXPECT_FALSE(Bench(500).change("a=1", Price::kNothing, 4).change("b=1", Price::kSlower, 7).cure());
  EXPECT_FALSE(Bench(500).cure());
}

}  // namespace
}  // namespace plimsoll
