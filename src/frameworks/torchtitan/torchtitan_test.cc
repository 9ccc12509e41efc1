// torchtitan's wrapping and checkpoints on a small llama: hidden 32, 2 or 4 layers, 4 heads of 8 with 2 of
// keys and values, vocabulary 64, sequences of 16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "frameworks/pytorch/small_model.h"
#include "frameworks/torchtitan/activation_checkpoint.h"
#include "frameworks/torchtitan/architecture.h"
#include "frameworks/torchtitan/forward.h"
#include "frameworks/torchtitan/sharding.h"
#include "frameworks/torchtitan/training.h"

namespace plimsoll::torchtitan {
namespace {

using pytorch::member;
using pytorch::small;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ResolvedJob titan_job(TorchtitanRelease release, RecomputeKind recompute = RecomputeKind::kNone) {
  ResolvedJob job = pytorch::job_of(16);
  job.framework = Framework::kTorchtitan;
  job.engine = DataParallelEngine::kFsdp2;
  job.precision = Precision::kFloat32;
  job.mesh = {.world = 4, .data = 4, .shard = 4};
  job.optimizer.implementation = OptimizerImplementation::kFused;
  job.recompute.kind = recompute;
  job.torchtitan.release = release;
  job.loop.has_evaluation = false;
  return job;
}

Architecture titan_llama(int64_t layers = 2) {
  Result<Architecture> a = torchtitan_architecture(small("llama", {member("num_hidden_layers", layers)}), 16);
  EXPECT_TRUE(a) << a.error().to_text();
  return std::move(*a);
}

Program run_of(const ResolvedJob& job) {
  PassList passes({.verifies = true});
  Result<Program> program = build_training(small("llama"), job, {.passes = &passes});
  EXPECT_TRUE(program) << program.error().to_text();
  return std::move(*program);
}

TEST(Torchtitan, ModulesHaveTheirNamesThere) {
  const Architecture a = titan_llama();
  EXPECT_EQ(a.parameter_count(), small("llama").parameter_count());
  EXPECT_EQ(a.parameters.front().name, "tok_embeddings.weight");
  EXPECT_EQ(a.parameters[6].name, "layers.0.feed_forward.w2.weight");  // registered before w3
  EXPECT_EQ(a.parameters.back().name, "output.weight");
  ASSERT_EQ(a.buffers.size(), 1u);
  EXPECT_THAT(a.buffers[0].shape, ElementsAre(16, 4));  // complex64 for every pair of a head's 8
}

TEST(Torchtitan, AParameterThatItsModelLacksIsNamed) {
  Architecture biased = small("llama");
  biased.parameters.push_back({.name = "model.layers.0.self_attn.q_proj.bias", .shape = {32}});
  const Result<Architecture> renamed = torchtitan_architecture(biased, 16);
  ASSERT_FALSE(renamed);
  EXPECT_THAT(renamed.error().to_text(), HasSubstr("model.layers.0.self_attn.q_proj.bias"));
}

// Queries and keys are normed per head; the table holds cosines and sines, and each block's hook casts it.
TEST(Torchtitan, Qwen3) {
  const Architecture qwen = small("qwen3", {member("head_dim", 8)});
  ResolvedJob job = titan_job(TorchtitanRelease::k022);
  const Result<Architecture> a = torchtitan_architecture(qwen, 16);
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_EQ(a->parameters[1].name, "layers.0.attention.q_norm.weight");
  ASSERT_EQ(a->buffers.size(), 1u);
  EXPECT_THAT(a->buffers[0].shape, ElementsAre(16, 16));
  const auto forward = record_forward(*a, job, std::vector<bool>(a->parameters.size(), true),
                                      {.parameter_dtype = DType::kBFloat16});
  ASSERT_TRUE(forward) << forward.error().to_text();
  EXPECT_EQ(pytorch::ops_of(forward->program, OpKind::kFusedRmsNorm, "layers.0.").size(), 4u);
  EXPECT_EQ(pytorch::ops_of(forward->program, OpKind::kCast, "layers.").size(), 2u);  // one a block
}

std::vector<bool> reshards(TorchtitanRelease release, ReshardPolicy policy) {
  ResolvedJob job = titan_job(release);
  job.torchtitan.reshard_after_forward = policy;
  std::vector<bool> flags;
  for (const pytorch::ShardingUnit& unit : sharding_plan(titan_llama(), job).units)
    flags.push_back(unit.reshards_after_forward);
  return flags;
}

TEST(Torchtitan, UnitsOfFsdp2) {
  const Architecture a = titan_llama();
  const pytorch::ShardingPlan first = sharding_plan(a, titan_job(TorchtitanRelease::k010));
  ASSERT_EQ(first.units.size(), 3u);
  EXPECT_EQ(first.units[0].members.size(), 3u);  // embedding, last norm, head
  const pytorch::ShardingPlan later = sharding_plan(a, titan_job(TorchtitanRelease::k022));
  ASSERT_EQ(later.units.size(), 5u);
  EXPECT_EQ(later.units[0].members.size(), 0u);
  EXPECT_EQ(later.units[*later.embedding].members.size(), 1u);
  EXPECT_EQ(later.units[*later.head].members.size(), 2u);
}

TEST(Torchtitan, WhatStaysGatheredAfterTheForward) {
  using R = TorchtitanRelease;
  using P = ReshardPolicy;
  // root, two blocks
  EXPECT_THAT(reshards(R::k010, P::kDefault), ElementsAre(true, true, false));
  EXPECT_THAT(reshards(R::k010, P::kAlways), ElementsAre(true, true, true));
  EXPECT_THAT(reshards(R::k010, P::kNever), ElementsAre(true, false, false));
  // and embedding, head; the root holds nothing
  EXPECT_THAT(reshards(R::k022, P::kDefault), ElementsAre(true, true, true, true, false));
  EXPECT_THAT(reshards(R::k022, P::kAlways), ElementsAre(true, true, true, true, true));
  EXPECT_THAT(reshards(R::k022, P::kNever), ElementsAre(false, false, false, false, false));
}

TEST(Torchtitan, EveryNthLayerIsCountedFromOne) {
  ResolvedJob job = titan_job(TorchtitanRelease::k010, RecomputeKind::kEveryNth);
  job.recompute.every_nth = 2;
  Program program;
  program.regions.assign(4, {.kind = RegionKind::kBlock});
  ASSERT_TRUE(mark_checkpoints(program, job));
  std::vector<Checkpoint> marks;
  for (const Region& region : program.regions) marks.push_back(region.checkpoint);
  constexpr Checkpoint kNo = Checkpoint::kNone, kYes = Checkpoint::kNonReentrant;
  EXPECT_THAT(marks, ElementsAre(kNo, kYes, kNo, kYes));
}

// How often ops of the kind run in the first backward's recomputation of the last block.
int recomputed(const Program& program, OpKind kind) {
  const Section* backward = nullptr;
  for (const Section& section : program.sections)
    if (section.name == "backward" && backward == nullptr) backward = &section;
  int count = 0;
  for (uint32_t i = backward->first_statement; i < backward->last_statement; ++i) {
    const Statement& s = program.statements[i];
    if (s.kind != StatementKind::kOp) continue;
    const Op& op = program.ops[s.index];
    count += op.kind == kind && op.is_recomputed && program.module_name(op.module).starts_with("layers.1.");
  }
  return count;
}

// Products: wq, wk, wv, wo, w1, w3, w2. Those with an even number are computed again.
TEST(Torchtitan, SelectiveCheckpointsKeepEverySecondProduct) {
  const Program first = run_of(titan_job(TorchtitanRelease::k010, RecomputeKind::kSelective));
  EXPECT_EQ(recomputed(first, OpKind::kMm), 3);
  EXPECT_EQ(recomputed(first, OpKind::kFlashAttention), 0);
  const Program full = run_of(titan_job(TorchtitanRelease::k010, RecomputeKind::kFull));
  EXPECT_EQ(recomputed(full, OpKind::kMm), 6);  // it stops before w2, of which nothing is wanted
  const Program whole = run_of(titan_job(TorchtitanRelease::k022, RecomputeKind::kFull));
  EXPECT_EQ(recomputed(whole, OpKind::kMm), 7);  // early_stop is off
}

TEST(Torchtitan, CudnnsResultIsKeptFromALaterReleaseOn) {
  for (const auto& [release, again] :
       {std::pair{TorchtitanRelease::k010, 1}, std::pair{TorchtitanRelease::k022, 0}}) {
    ResolvedJob job = titan_job(release, RecomputeKind::kSelective);
    job.sdpa_backend = SdpaBackend::kCudnnFirst;
    EXPECT_EQ(recomputed(run_of(job), OpKind::kCudnnAttention), again);
  }
}

// Bytes of activations, logits among them, that live between forward and backward of the first step.
Bytes kept_between(const Program& program) {
  std::vector<bool> lives(program.storages.size());
  for (const Section& section : program.sections) {
    if (section.name == "backward") break;
    for (uint32_t i = section.first_statement; i < section.last_statement; ++i) {
      const Statement& s = program.statements[i];
      if (s.kind == StatementKind::kFree) lives[s.index] = false;
      if (s.kind != StatementKind::kOp) continue;
      for (TensorId t : program.outputs(program.ops[s.index])) lives[program.tensor(t).storage.value] = true;
    }
  }
  Bytes kept;
  for (size_t i = 0; i < lives.size(); ++i) {
    const Category category = program.storages[i].category;
    if (lives[i] && (category == Category::kActivation || category == Category::kLogits))
      kept += program.storages[i].bytes;
  }
  return kept;
}

// w2's result [16, 32] in bf16 of both layers is kept, though nothing reads it: a compiler doesn't keep it.
TEST(Torchtitan, CompiledBlocksKeepOnlyWhatTheBackwardReads) {
  ResolvedJob job = titan_job(TorchtitanRelease::k010, RecomputeKind::kSelective);
  const Bytes eager = kept_between(run_of(job));
  job.torchtitan.compiles_blocks = true;
  EXPECT_EQ(eager - kept_between(run_of(job)), Bytes{2 * 16 * 32 * 2});
}

// The linears of a block: wq and wo 32 x 32, wk and wv 16 x 32, w1, w2, w3 48 x 32; its norms 2 x 32.
TEST(Torchtitan, WeightsGatheredInFloat8TakeAByte) {
  ResolvedJob job = titan_job(TorchtitanRelease::k010, RecomputeKind::kSelective);
  job.torchtitan.compiles_blocks = true;
  const auto gathered = [](const Program& program) {
    std::set<Bytes> sizes;
    for (const Storage& s : program.storages)
      if (s.category == Category::kGatherBuffer) sizes.insert(s.bytes);
    return sizes;
  };
  constexpr int64_t kLinears = 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32, kNorms = 2 * 32;
  EXPECT_TRUE(gathered(run_of(job)).contains(Bytes{2 * (kLinears + kNorms)}));
  job.torchtitan.float8 = Float8Recipe::kTensorwise;
  job.torchtitan.gathers_float8 = true;
  const std::set<Bytes> sizes = gathered(run_of(job));
  EXPECT_TRUE(sizes.contains(Bytes{kLinears + 2 * kNorms}));
  EXPECT_FALSE(sizes.contains(Bytes{2 * (kLinears + kNorms)}));
}

// Instead of log-probabilities [16, 64] in fp32 and the total weight: the logits in bf16, which the norm and
// the head don't keep, and two statistics a row.
TEST(Torchtitan, ACompiledLossKeepsTheLogits) {
  ResolvedJob job = titan_job(TorchtitanRelease::k010);
  const Bytes eager = kept_between(run_of(job));
  job.torchtitan.compiles_loss = true;
  EXPECT_EQ(eager - kept_between(run_of(job)), Bytes{16 * 64 * 4 + 4 - (16 * 64 * 2 + 2 * 16 * 4)});
}

}  // namespace
}  // namespace plimsoll::torchtitan
