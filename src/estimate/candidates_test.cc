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

std::vector<Settings> settings_for(const Estimate& e, Role role = Role::kRow) {
  std::vector<Settings> all;
  for (const Candidate& c : candidates_for(e))
    if (c.role == role) all.push_back(c.settings);
  return all;
}

std::vector<Settings> settings_for(ResolvedJob job) { return settings_for(estimate_of(std::move(job))); }

// Those of one field, rows and further steps, in their order.
std::vector<Settings> way_of(const std::string& field, const Estimate& e) {
  std::vector<Settings> way;
  for (const Candidate& c : candidates_for(e))
    if (field_of(c.settings[0]) == field) way.push_back(c.settings);
  return way;
}

TEST(Candidates, KeepTheGlobalBatch) {
  const auto way = [](Batch batch) { return way_of("batch.micro_batch", estimate_of({.batch = batch})); };
  EXPECT_THAT(way({.micro_batch = 6, .accumulation = 4}),
              ElementsAre(Settings{"batch.micro_batch=3", "batch.accumulation=8"},
                          Settings{"batch.micro_batch=1", "batch.accumulation=24"}));
  EXPECT_THAT(way({.micro_batch = 9, .accumulation = 1}),
              ElementsAre(Settings{"batch.micro_batch=3", "batch.accumulation=3"},
                          Settings{"batch.micro_batch=1", "batch.accumulation=9"}));
  EXPECT_THAT(way({.micro_batch = 1}), IsEmpty());
  EXPECT_THAT(settings_for({.batch = {.micro_batch = 8}}),
              Contains(Settings{"batch.micro_batch=4", "batch.accumulation=2"}));
}

TEST(Candidates, OfAWayTheTableHasTheFirstStep) {
  const Estimate e = estimate_of({.batch = {.sequence = 4096}});
  EXPECT_THAT(way_of("batch.sequence", e),
              ElementsAre(Settings{"batch.sequence=2048"}, Settings{"batch.sequence=1024"},
                          Settings{"batch.sequence=512"}));
  EXPECT_THAT(settings_for(e, Role::kRow), Contains(Settings{"batch.sequence=2048"}));
  EXPECT_THAT(settings_for(e, Role::kRow), Not(Contains(Settings{"batch.sequence=1024"})));
}

TEST(Candidates, MoreGpusAreForJobsThatDoNotFit) {
  Estimate e = estimate_of({.mesh = {.world = 16, .data = 16, .shard = 16},
                            .engine = DataParallelEngine::kFsdp2,
                            .batch = {.global_batch = 16},
                            .assumed = {{.field = "parallel.data"}, {.field = "batch.global_batch"}}});
  EXPECT_THAT(way_of("hardware.gpus", e), IsEmpty());
  e.verdict.gpu = Fit::kOutOfMemory;
  EXPECT_THAT(way_of("hardware.gpus", e), Contains(Settings{"hardware.gpus=1024"}));
  const auto all = candidates_for(e);
  const auto row = std::ranges::find_if(
      all, [](const Candidate& c) { return c.settings == Settings{"hardware.gpus=32"}; });
  ASSERT_NE(row, all.end());
  EXPECT_EQ(row->role, Role::kRow);
  EXPECT_EQ(row->price, "32 GPUs instead of 16, global batch 16 -> 32");
  EXPECT_EQ(row->rank, Price::kMoreHardware);
  e.job.assumed.clear();  // both were given
  EXPECT_THAT(way_of("hardware.gpus", e), Contains(Settings{"hardware.gpus=32", "parallel.data=default"}));
}

TEST(Candidates, AShortHostMayKeepWhatItWasGiven) {
  const auto offered = [](Fit host, bool is_pinned) {
    Estimate e = estimate_of({.mesh = {.world = 8, .data = 8, .shard = 8},
                              .engine = DataParallelEngine::kFsdp2,
                              .fsdp2 = {.cpu_offload = true, .pin_memory = is_pinned}});
    e.verdict.host = host;
    return settings_for(e);
  };
  const Settings kKeep{"fsdp2.cpu_offload=false"}, kPageable{"fsdp2.pin_memory=false"};
  EXPECT_THAT(offered(Fit::kFits, true), Not(Contains(kKeep)));
  EXPECT_THAT(offered(Fit::kAtRisk, true), Contains(kKeep));
  EXPECT_THAT(offered(Fit::kAtRisk, true), Contains(kPageable));
  EXPECT_THAT(offered(Fit::kOutOfMemory, false), Not(Contains(kPageable)));
  EXPECT_THAT(offered(Fit::kOutOfMemory, false),
              Contains(Settings{"fsdp2.cpu_offload=false", "fsdp2.pin_memory=default"}));
}

// 256 experts over 512 ranks: half of what a rank holds of them is padding.
TEST(Candidates, CopiesThatTakeThePaddingAway) {
  Architecture a;
  a.parameters = {{.name = "experts", .shape = {256, 64, 64}}};
  const auto replicas = [&](int64_t ranks, int64_t rows) {
    a.parameters[0].shape[0] = rows;
    const ResolvedJob job{.mesh = {.world = ranks, .data = ranks, .shard = ranks},
                          .engine = DataParallelEngine::kFsdp2};
    return facts_of({}, a, job).even_replicas;
  };
  EXPECT_EQ(replicas(512, 256), 2);
  EXPECT_EQ(replicas(512, 128), 4);
  EXPECT_EQ(replicas(256, 256), std::nullopt);
  EXPECT_EQ(replicas(512, 511), std::nullopt);  // half as many shards hold twice as much
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
TEST(Candidates, OfTheNativeRuntimeAreItsOwnTiersAndStages) {
  ResolvedJob job{.framework = Framework::kNative};
  EXPECT_THAT(settings_for(job), Contains(Settings{"offload.activations=host"}));
  EXPECT_THAT(settings_for(job), Contains(Settings{"offload.optimizer=host"}));
  EXPECT_THAT(settings_for(job), Contains(Settings{"hardware.gpus=8", "parallel.engine=zero"}));
  EXPECT_THAT(settings_for(estimate_of(job), Role::kAddition),
              Not(Contains(Settings{"fsdp2.cpu_offload=true"})));
  job.engine = DataParallelEngine::kZero;
  job.mesh.world = job.mesh.data = 4;
  job.zero.stage = 2;
  EXPECT_THAT(settings_for(job), Contains(Settings{"zero.stage=3"}));
  job.zero.stage = 3;
  job.offload = {.activations = OffloadTarget::kHost, .optimizer = OffloadTarget::kDisk};
  EXPECT_THAT(settings_for(job), Contains(Settings{"offload.parameters=host"}));
  EXPECT_THAT(settings_for(job), Not(Contains(Settings{"offload.optimizer=host"})));
  Estimate short_host = estimate_of(job);
  EXPECT_THAT(settings_for(short_host), Not(Contains(Settings{"offload.optimizer=none"})));
  short_host.verdict.host = Fit::kOutOfMemory;
  EXPECT_THAT(settings_for(short_host), Contains(Settings{"offload.optimizer=none"}));
  EXPECT_THAT(settings_for(short_host), Contains(Settings{"offload.activations=none"}));
  short_host.job.offload.parameters = OffloadTarget::kHost;
  EXPECT_THAT(settings_for(short_host),
              Contains(Settings{"offload.parameters=none", "offload.optimizer=none"}));
}

TEST(Combinable, AreTheFirstValuesOfTheirFields) {
  const std::vector<Candidate> candidates = {
      {.settings = {"recompute.mode=selective"}, .rank = Price::kSomeCompute},
      {.settings = {"recompute.mode=full"}, .rank = Price::kMoreCompute},
      {.settings = {"loss.path=chunked"}, .rank = Price::kSomeCompute},
      {.settings = {"loss.path=fused-linear"}, .rank = Price::kOtherKernel},
      {.settings = {"optimizer.name=adam8bit"}, .rank = Price::kOtherOptimizer},
      {.settings = {"hardware.gpus=8"}, .rank = Price::kMoreHardware}};
  EXPECT_THAT(combinable(candidates), ElementsAre(1, 2));
}

TEST(Combinable, OneIsNone) {
  EXPECT_THAT(combinable({{.settings = {"recompute.mode=full"}, .rank = Price::kMoreCompute}}), IsEmpty());
}

TEST(Merged, PricesAreSaidOnceAndNothingIsNot) {
  const auto price_of = [](const std::vector<std::string>& prices) {
    std::vector<Candidate> all;
    for (const std::string& price : prices) all.push_back({.settings = {"a=1"}, .price = price});
    std::vector<const Candidate*> parts;
    for (const Candidate& c : all) parts.push_back(&c);
    return merged(parts).price;
  };
  EXPECT_EQ(price_of({"nothing, it is faster too", "slow", "slow", "dear"}), "slow; dear");
  EXPECT_EQ(price_of({"nothing", "nothing"}), "nothing");
}

}  // namespace
}  // namespace plimsoll
