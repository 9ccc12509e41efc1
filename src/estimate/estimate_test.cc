// Estimates of small models on small GPUs.
#include "estimate/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frameworks/pytorch/small_model.h"

namespace plimsoll {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr Bytes kMiB{1 << 20};

Gpu gpu_of(Bytes usable) {
  Gpu gpu{.name = "small", .nominal_memory = usable, .usable_memory = usable, .context = kMiB};
  gpu.architecture = "sm_90";
  return gpu;
}

class SmallEstimate : public testing::Test {
 protected:
  EstimateRun run(Bytes usable, std::string allocator) {
    job_.batch.sequence = 2048;
    job_.allocator.configuration = std::move(allocator);
    gpu_ = gpu_of(usable);
    Result<EstimateRun> run = run_estimate(request());
    EXPECT_TRUE(run) << run.error().to_text();
    return std::move(*run);
  }
  EstimateRequest request() const {
    return {.architecture = llama_, .job = job_, .gpu = gpu_, .node = node_};
  }

  const Architecture llama_ = pytorch::small("llama");
  Job job_;
  Gpu gpu_;
  const Node node_{.cluster = "node", .gpus = 1, .host_memory = kGiB * 100};
};

void expect_whole(const EstimateRun& run) {
  EXPECT_EQ(run.estimate.phases.size(), static_cast<size_t>(kPhaseKinds));
  EXPECT_FALSE(run.timeline.oom);
  for (const PhaseEstimate& phase : run.estimate.phases)
    EXPECT_LE(phase.use.live, run.estimate.reserved_without_limit);
}

// An expandable range is 1 1/8 of the device: one without limit has ranges without such an end.
TEST_F(SmallEstimate, WhatTheGpuCannotHoldIsPlayedOnADeviceWithoutLimit) {
  for (const char* allocator : {"", "expandable_segments:True"}) {
    const EstimateRun limited = run(kMiB * 8, allocator);
    EXPECT_EQ(limited.estimate.verdict.gpu, Fit::kOutOfMemory) << allocator;
    expect_whole(limited);
    const EstimateRun large = run(kGiB * 64, allocator);
    EXPECT_EQ(large.estimate.verdict.gpu, Fit::kFits) << allocator;
    expect_whole(large);
    EXPECT_EQ(limited.estimate.wanted(), large.estimate.wanted()) << allocator;
    EXPECT_EQ(limited.timeline.events.size(), large.timeline.events.size()) << allocator;
  }
}

TEST_F(SmallEstimate, AMemoryFractionIsALimitOfTheAllocatorNotOfTheDeviceWithoutLimit) {
  const Bytes wanted = run(kGiB * 64, "").estimate.wanted();
  const EstimateRun fraction = run(kGiB * 2, "per_process_memory_fraction:0.004");
  const Estimate& e = fraction.estimate;
  EXPECT_EQ(e.capacity, Bytes{static_cast<int64_t>(0.004 * 2147483648.0)});
  EXPECT_EQ(e.verdict.gpu, Fit::kOutOfMemory);
  EXPECT_EQ(e.wanted(), wanted);
  EXPECT_GT(e.wanted(), e.device_limit());
  expect_whole(fraction);
  EXPECT_THAT(e.notes, Contains(HasSubstr("leaves the allocator 0.008 GiB of the GPU's 2.00 GiB")));
  EXPECT_THAT(e.verdict.reasons[0], HasSubstr("of the 0.008 GiB that the allocator may take"));
}

TEST_F(SmallEstimate, AQuickAnswerIsThatOfTheWholeEstimate) {
  for (const Bytes usable : {kMiB * 8, kMiB * 64, kGiB * 64}) {
    for (const char* allocator : {"", "expandable_segments:True", "per_process_memory_fraction:0.1"}) {
      const EstimateRun whole = run(usable, allocator);
      const Result<QuickAnswer> quick = quick_estimate(request(), whole.program);
      ASSERT_TRUE(quick) << quick.error().to_text();
      EXPECT_EQ(quick->wanted, whole.estimate.wanted()) << allocator;
      EXPECT_EQ(quick->device_peak, whole.estimate.device_peak()) << allocator;
      EXPECT_EQ(quick->gpu, whole.estimate.verdict.gpu) << allocator;
    }
  }
}

Bytes host_staging(const EstimateRun& run) {
  const PhaseEstimate& save = run.estimate.phases.back();
  return save.use.host - run.estimate.phases[2].use.host;
}

// A tied head is loaded as a tensor of its own and given up.
TEST_F(SmallEstimate, SavingCopiesTheParametersThatAreAlive) {
  const EstimateRun untied = run(kGiB * 64, "");
  EXPECT_EQ(host_staging(untied), Bytes{llama_.parameter_count() * 4});
  Architecture tied = pytorch::small("llama", {{.key = "tie_word_embeddings", .value = {true}}});
  const Result<EstimateRun> run =
      run_estimate({.architecture = tied, .job = job_, .gpu = gpu_, .node = node_});
  ASSERT_TRUE(run);
  EXPECT_EQ(tied.parameter_count(), llama_.parameter_count() - 64 * 32);
  EXPECT_EQ(host_staging(*run), Bytes{tied.parameter_count() * 4});
}

// FSDP2 shards what it loaded whole; a rank writes one shard after another.
TEST_F(SmallEstimate, SavingShardsStagesTheLargestShard) {
  job_.hardware.gpus = 2;
  job_.engine = DataParallelEngine::kFsdp2;
  const EstimateRun sharded = run(kGiB * 64, "");
  const Bytes largest_shard{64 * 32 / 2 * 4};  // of the embedding, in fp32
  EXPECT_EQ(host_staging(sharded), largest_shard + Bytes{10'000'000});
}

}  // namespace
}  // namespace plimsoll
