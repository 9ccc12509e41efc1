#include "estimate/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using Settings = std::vector<std::string>;

Estimate estimate_of(ResolvedJob job) {
  Estimate e;
  e.family = "llama";
  e.node.gpus = 8;
  e.job = std::move(job);
  e.phases = {{.kind = PhaseKind::kSteadyStep}};
  return e;
}

std::vector<Settings> settings_for(ResolvedJob job) {
  std::vector<Settings> all;
  for (const Candidate& c : candidates_for(estimate_of(std::move(job))))
    if (!c.is_last_resort) all.push_back(c.settings);
  return all;
}

TEST(Candidates, KeepTheGlobalBatch) {
  EXPECT_THAT(settings_for({.batch = {.micro_batch = 6, .accumulation = 4}}),
              Contains(Settings{"batch.micro_batch=3", "batch.accumulation=8"}));
  EXPECT_THAT(settings_for({.batch = {.micro_batch = 3, .accumulation = 4}}),
              Contains(Settings{"batch.micro_batch=1", "batch.accumulation=12"}));
}

TEST(Candidates, AShortSequenceIsNoAnswer) {
  const auto halves = [](int64_t sequence) {
    const auto all = settings_for({.batch = {.sequence = sequence}});
    return std::ranges::any_of(all, [](const Settings& s) { return s[0].starts_with("batch.sequence="); });
  };
  EXPECT_TRUE(halves(1024));
  EXPECT_FALSE(halves(1023));
}

TEST(Candidates, AreOnlyWhatTheJobDoesNotDoYet) {
  const std::vector<Settings> saving =
      settings_for({.batch = {.sequence = 512},
                    .optimizer = {.kind = OptimizerKind::kSgd},
                    .recompute = {.kind = RecomputeKind::kFull},
                    .loss = {.kind = LossKind::kChunked},
                    .allocator = {.configuration = "expandable_segments:True"}});
  // One GPU of a node of eight.
  EXPECT_THAT(saving, ElementsAre(Settings{"hardware.gpus=8", "parallel.engine=fsdp2", "precision=bf16"}));
}

TEST(Candidates, AFamilyWithoutSdpaIsNotOfferedIt) {
  const auto offered = [](std::string family) {
    Estimate e = estimate_of({.attention = AttentionImplementation::kEager});
    e.family = std::move(family);
    const auto all = candidates_for(e);
    return std::ranges::any_of(
        all, [](const Candidate& c) { return c.settings[0] == "attention.implementation=sdpa"; });
  };
  EXPECT_TRUE(offered("llama"));
  EXPECT_FALSE(offered("bloom"));
}

TEST(Candidates, FlashAttentionWhereNothingElseIsFused) {
  const Settings kFlash{"attention.implementation=flash_attention_2"};
  const auto offered = [&](std::string family, AttentionImplementation implementation, bool has_flash) {
    Estimate e = estimate_of({.attention = implementation});
    e.family = std::move(family);
    const auto all = candidates_for(e, {.has_flash_attention = has_flash});
    return std::ranges::any_of(all, [&](const Candidate& c) { return c.settings == kFlash; });
  };
  EXPECT_TRUE(offered("gemma2", AttentionImplementation::kEager, true));  // has no sdpa
  EXPECT_FALSE(offered("llama", AttentionImplementation::kEager, true));  // sdpa does it
  EXPECT_TRUE(offered("llama", AttentionImplementation::kSdpa, false));   // sdpa falls back
  EXPECT_FALSE(offered("llama", AttentionImplementation::kSdpa, true));
  EXPECT_FALSE(offered("bloom", AttentionImplementation::kEager, true));  // has none
}

TEST(Candidates, ViewsOfBucketsUnderDdp) {
  const Settings kViews{"ddp.gradient_as_bucket_view=true"};
  EXPECT_THAT(settings_for({.engine = DataParallelEngine::kDdp}), Contains(kViews));
  EXPECT_THAT(settings_for({.engine = DataParallelEngine::kDdp, .ddp = {.gradient_as_bucket_view = true}}),
              Not(Contains(kViews)));
}

// What leaves hardware and training as they are, one value a field.
TEST(Combination, TakesTheFirstValueOfAField) {
  const std::vector<Candidate> candidates = {
      {.settings = {"recompute.mode=selective"}, .rank = Price::kSomeCompute},
      {.settings = {"recompute.mode=full"}, .rank = Price::kMoreCompute},
      {.settings = {"loss.path=chunked"}, .rank = Price::kSomeCompute},
      {.settings = {"loss.path=fused-linear"}, .rank = Price::kOtherKernel},
      {.settings = {"optimizer.name=adam8bit"}, .rank = Price::kOtherTraining},
      {.settings = {"hardware.gpus=8"}, .rank = Price::kMoreHardware}};
  const std::optional<Candidate> all = combination_of(candidates);
  ASSERT_TRUE(all);
  EXPECT_THAT(all->settings, ElementsAre("recompute.mode=full", "loss.path=chunked"));
  EXPECT_TRUE(all->is_combination);
}

TEST(Combination, OfOneIsNone) {
  EXPECT_FALSE(combination_of({{.settings = {"recompute.mode=full"}, .rank = Price::kMoreCompute}}));
}

}  // namespace
}  // namespace plimsoll
