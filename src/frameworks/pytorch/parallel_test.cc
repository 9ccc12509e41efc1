// What data and tensor parallelism do with parameters, gradients and buffers, on a small llama: hidden 32, 2
// layers, 4 heads of 8, vocabulary 64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "frameworks/pytorch/small_model.h"
#include "frameworks/pytorch/tensor_parallel.h"
#include "frameworks/pytorch/training.h"

namespace plimsoll::pytorch {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

Program run_of(const ResolvedJob& job, const Architecture& architecture = small("llama")) {
  const bool keeps_gradients = job.ddp.gradient_as_bucket_view;  // in the buckets
  PassList passes({.verifies = true, .verify = {.may_keep_gradients = keeps_gradients}});
  Result<Program> program = build_training(architecture, job, {.passes = &passes});
  EXPECT_TRUE(program) << program.error().to_text();
  return *std::move(program);
}

ResolvedJob fsdp2(int64_t shard, int64_t replicate = 1) {
  ResolvedJob job = job_of(16);
  job.engine = DataParallelEngine::kFsdp2;
  job.precision = Precision::kFloat32;
  job.mesh = {.world = shard * replicate, .data = shard * replicate, .replicate = replicate, .shard = shard};
  job.fsdp2.root_reshard_after_forward = false;
  return job;
}

ResolvedJob ddp(const DdpSettings& settings) {
  ResolvedJob job = job_of(16);
  job.engine = DataParallelEngine::kDdp;
  job.mesh = {.world = 8, .data = 8, .replicate = 8};
  job.ddp = settings;
  return job;
}

// Ops of the kind in each section of the name, in order.
std::vector<int> counts(const Program& program, std::string_view section_name, OpKind kind) {
  std::vector<int> counted;
  for (const Section& section : program.sections) {
    if (section.name != section_name) continue;
    int count = 0;
    for (uint32_t i = section.first_statement; i < section.last_statement; ++i) {
      const Statement& s = program.statements[i];
      count += s.kind == StatementKind::kOp && program.ops[s.index].kind == kind;
    }
    counted.push_back(count);
  }
  return counted;
}

std::vector<Bytes> storages_of(const Program& program, Category category, std::string_view owner) {
  std::vector<Bytes> found;
  for (const Storage& storage : program.storages)
    if (storage.category == category && program.module_name(storage.owner) == owner)
      found.push_back(storage.bytes);
  return found;
}

// ---- tensor parallelism ----

TEST(TensorParallel, ColumnsAreSplitBeforeTheAttentionAndRowsAfterIt) {
  EXPECT_EQ(split_of("self_attn.q_proj"), LinearSplit::kColumns);
  EXPECT_EQ(split_of("up_proj"), LinearSplit::kColumns);
  EXPECT_EQ(split_of("model.layers.0.mlp.down_proj"), LinearSplit::kRows);
  EXPECT_EQ(split_of("lm_head"), LinearSplit::kNone);
}

TEST(TensorParallel, PartsSumToTheWholeAndTheRestIsReplicated) {
  const Architecture whole = small("llama"), part = local_architecture(whole, 2);
  for (size_t i = 0; i < whole.parameters.size(); ++i) {
    const ParameterTensor& p = whole.parameters[i];
    const bool is_split = p.name.ends_with("_proj.weight");
    const auto elements = [](const ParameterTensor& t) { return Layout::contiguous(t.shape).elements(); };
    EXPECT_EQ(elements(part.parameters[i]) * (is_split ? 2 : 1), elements(p)) << p.name;
  }
  EXPECT_EQ(part.layers[0].attention.heads * 2, whole.layers[0].attention.heads);
  EXPECT_EQ(part.layers[0].mlp->intermediate * 2, whole.layers[0].mlp->intermediate);
}

// q, k, v, gate and up each sum their input's gradient; o and down their output.
TEST(TensorParallel, EverySplitLinearHasAnAllReduceOfItsOwn) {
  ResolvedJob job = fsdp2(2);
  job.mesh.world = 4;
  job.mesh.tensor = 2;
  const Program program = run_of(job);
  EXPECT_EQ(counts(program, "forward", OpKind::kFunctionalAllReduce)[0], 2 * 2);
  EXPECT_EQ(counts(program, "backward", OpKind::kFunctionalAllReduce)[0], 2 * 5);
}

// ---- FSDP2 ----

// Dim 0 is padded to a multiple of the ranks: 3 ranks hold 22 rows each of the 64 of the embedding, 11 of the
// norms' 32.
TEST(Fsdp2, ShardsArePaddedAlongTheFirstDim) {
  const Program program = run_of(fsdp2(3));
  const auto expect = [&](std::string_view name, int64_t shard_elements) {
    EXPECT_THAT(storages_of(program, Category::kParameter, name), ElementsAre(Bytes{shard_elements * 4}));
    // Gathered in bf16.
    EXPECT_THAT(storages_of(program, Category::kUnshardedParameter, name),
                ElementsAre(Bytes{3 * shard_elements * 2}));
  };
  expect("model.embed_tokens.weight", 22 * 32);
  expect("model.norm.weight", 11);
}

// Root and two blocks; the root stays gathered after the forward, blocks are gathered again.
TEST(Fsdp2, BlocksAreGatheredTwiceUnlessTheyStay) {
  const Program reshards = run_of(fsdp2(4));
  EXPECT_EQ(counts(reshards, "forward", OpKind::kAllGather)[0], 3);
  EXPECT_EQ(counts(reshards, "backward", OpKind::kAllGather)[0], 2);
  ResolvedJob job = fsdp2(4);
  job.fsdp2.reshard_after_forward = false;
  const Program stays = run_of(job);
  EXPECT_EQ(counts(stays, "forward", OpKind::kAllGather)[0], 3);
  EXPECT_EQ(counts(stays, "backward", OpKind::kAllGather)[0], 0);
}

TEST(Fsdp2, ReplicasAddAnAllReduceToEveryReduceScatter) {
  EXPECT_EQ(counts(run_of(fsdp2(4)), "backward", OpKind::kReduceScatter)[0], 3);
  EXPECT_EQ(counts(run_of(fsdp2(4)), "backward", OpKind::kAllReduce)[0], 0);
  EXPECT_EQ(counts(run_of(fsdp2(4, 2)), "backward", OpKind::kAllReduce)[0], 3);
}

TEST(Fsdp2, WithoutSyncNothingIsReducedBeforeTheLastMicroBatch) {
  ResolvedJob job = fsdp2(4);
  job.batch.accumulation = 2;
  job.loop.no_sync = true;
  EXPECT_THAT(counts(run_of(job), "backward", OpKind::kReduceScatter), ElementsAre(0, 3));
}

TEST(Fsdp2, OffloadedShardsLieOnTheHostWithGradientsAndStates) {
  ResolvedJob job = fsdp2(4);
  job.fsdp2.cpu_offload = true;
  job.optimizer.implementation = OptimizerImplementation::kForLoop;
  const Program program = run_of(job);
  std::vector<Tier> tiers;
  for (const Storage& storage : program.storages)
    if (storage.category == Category::kGradient || storage.category == Category::kOptimizerState)
      tiers.push_back(storage.tier);
  EXPECT_FALSE(tiers.empty());
  EXPECT_THAT(tiers, Each(testing::Ne(Tier::kGpu)));
}

// ---- DDP ----

// One bucket takes everything at first; the parameters' bytes in bf16.
TEST(Ddp, TheFirstBucketTakesAll) {
  const Architecture architecture = small("llama");
  const Program program = run_of(ddp({}), architecture);
  const auto bucket = std::ranges::find(program.storages, Category::kCommunicationBucket, &Storage::category);
  ASSERT_NE(bucket, program.storages.end());
  EXPECT_EQ(bucket->bytes, Bytes{2} * architecture.parameter_count());
}

// A view of the bucket is the gradient: the bytes are counted once.
TEST(Ddp, GradientsAsBucketViewsAreNoBuckets) {
  const Program program = run_of(ddp({.gradient_as_bucket_view = true}));
  for (const Storage& storage : program.storages) EXPECT_NE(storage.category, Category::kCommunicationBucket);
}

// Before the second forward buckets are made in the order of the gradients, the first of 1 MiB, later ones of
// the cap: here each gradient that fills 0.001 MiB ends one.
TEST(Ddp, BucketsAreMadeAnewWithTheCap) {
  const auto buckets = [](double cap_mb) {
    const Program program = run_of(ddp({.bucket_cap_mb = cap_mb}));
    return std::ranges::count(program.storages, Category::kCommunicationBucket, &Storage::category);
  };
  EXPECT_EQ(buckets(25), 1 + 1);
  EXPECT_GT(buckets(0.001), 1 + 2);
}

}  // namespace
}  // namespace plimsoll::pytorch
