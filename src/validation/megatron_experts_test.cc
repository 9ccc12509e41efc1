// Megatron-LM jobs with experts and latent attention, from argument list to bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "estimate/estimate.h"
#include "frameworks/megatron/experts.h"
#include "frameworks/megatron/stage.h"
#include "hardware/catalog.h"
#include "importers/megatron/megatron_job.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

constexpr const char* kArguments = R"(ENV_VARS:
  CUBLAS_WORKSPACE_CONFIG: :4096:8
MODEL_ARGS:
  --num-layers: 4
  --hidden-size: 512
  --num-attention-heads: 8
  --micro-batch-size: 4
  --global-batch-size: 32
  --seq-length: 1024
  --max-position-embeddings: 1024
  --make-vocab-size-divisible-by: 64
  --deterministic-mode: true
  --disable-bias-linear: true
  --swiglu: true
  --attention-backend: unfused
  --num-experts: 8
  --moe-ffn-hidden-size: 1024
  --bf16: true
)";

MegatronJob job_of(const std::string& more, int64_t gpus = 8) {
  const auto arguments = read_megatron_arguments_text(std::string(kArguments) + more, "list");
  EXPECT_TRUE(arguments) << arguments.error().to_text();
  auto imported = megatron_job(*arguments, {.gpus = gpus});
  EXPECT_TRUE(imported) << imported.error().to_text();
  imported->job.hardware.gpu = "a100-80gb";
  return *std::move(imported);
}

Result<ResolvedJob> resolved(const MegatronJob& imported) {
  return resolve(imported.job, imported.architecture, {.name = "a100", .multiprocessors = 108});
}

Result<EstimateRun> try_run(const MegatronJob& imported, std::optional<int64_t> rank = std::nullopt) {
  const Gpu gpu = *find_gpu("a100-80gb");
  const Cluster cluster = *default_cluster_for(gpu);
  return run_estimate({.architecture = imported.architecture,
                       .job = imported.job,
                       .gpu = gpu,
                       .node = cluster.node,
                       .rank = rank});
}
EstimateRun run_of(const MegatronJob& imported) {
  auto run = try_run(imported);
  EXPECT_TRUE(run) << run.error().to_text();
  return *std::move(run);
}
Bytes peak_of(const EstimateRun& run) {
  Bytes peak;
  for (const PhaseMemory& p : run.timeline.phases) peak = std::max(peak, p.live_peak);
  return peak;
}

// What the ranks hold makes up the model, however experts and the rest are divided.
TEST(MegatronExperts, ParametersOfAllRanksAreTheModels) {
  const auto held = [](const std::string& more) {
    const MegatronJob imported = job_of(more);
    const auto job = resolved(imported);
    EXPECT_TRUE(job) << job.error().to_text();
    const int64_t expert_ranks = job->megatron->experts.expert_ranks * megatron::expert_tensor_ranks(*job);
    int64_t elements = 0;
    for (int64_t rank = 0; rank < job->mesh.pipeline; ++rank) {
      const auto stage = megatron::stage_of(imported.architecture, *job, rank);
      for (const megatron::Chunk& chunk : stage->chunks)
        for (const megatron::StageParameter& p :
             megatron::parameters_of(imported.architecture, *job, chunk)) {
          const int64_t copies = p.is_expert ? expert_ranks : p.is_split ? job->mesh.tensor : 1;
          if (!p.is_shared) elements += p.elements() * copies;
        }
    }
    return elements;
  };
  const std::string shared = "  --moe-shared-expert-intermediate-size: 512\n";
  const int64_t whole = held(shared);
  for (const char* degrees : {"  --expert-model-parallel-size: 4\n", "  --pipeline-model-parallel-size: 2\n",
                              "  --moe-grouped-gemm: true\n  --expert-model-parallel-size: 2\n",
                              "  --tensor-model-parallel-size: 2\n  --sequence-parallel: true\n",
                              "  --tensor-model-parallel-size: 2\n  --sequence-parallel: true\n"
                              "  --expert-tensor-parallel-size: 1\n  --expert-model-parallel-size: 8\n"})
    EXPECT_EQ(held(shared + degrees), whole) << degrees;
}

TEST(MegatronExperts, RowsOfARankAreWhatItsExpertsGet) {
  const auto load = [](const std::string& more, int64_t tokens) {
    const MegatronJob imported = job_of("  --moe-router-topk: 2\n" + more);
    const auto job = resolved(imported);
    EXPECT_TRUE(job) << job.error().to_text();
    return megatron::expert_load(*job, *imported.architecture.layers[0].moe, tokens);
  };
  // Every expert-parallel rank brings as many tokens: each gets as many rows as it sends.
  megatron::ExpertLoad rows = load("  --expert-model-parallel-size: 4\n", 100);
  EXPECT_EQ(rows.sent, 200);
  EXPECT_EQ(rows.received, 200);
  EXPECT_EQ(rows.computed, 200);
  EXPECT_EQ(rows.local_experts, 2);
  // Tensor-parallel ranks of experts compute one another's rows.
  rows = load(
      "  --tensor-model-parallel-size: 2\n  --sequence-parallel: true\n  --expert-model-parallel-size: 2\n",
      100);
  EXPECT_EQ(rows.received, 200);
  EXPECT_EQ(rows.computed, 400);
  // ceil(200 / 8 * 1.1) = 28 rows an expert, padded.
  rows = load(
      "  --moe-token-dispatcher-type: alltoall\n  --moe-expert-capacity-factor: 1.1\n"
      "  --moe-pad-expert-input-to-capacity: true\n",
      100);
  EXPECT_EQ(rows.capacity, 28);
  EXPECT_EQ(rows.sent, 28 * 8);
  // Half as much room as there are rows: the others are dropped.
  rows = load("  --moe-token-dispatcher-type: alltoall\n  --moe-expert-capacity-factor: 0.5\n", 100);
  EXPECT_EQ(rows.sent, 13 * 8);
}

// Of 4 experts with 2 a token a rank with one of them is chosen by half of the tokens, one with 3 by all.
TEST(MegatronExperts, ShareOfTokensThatARankIsSent) {
  const Moe moe{.experts = 4, .experts_per_token = 2};
  EXPECT_DOUBLE_EQ(megatron::share_of_tokens(moe, 1), 0.5);
  EXPECT_DOUBLE_EQ(megatron::share_of_tokens(moe, 2), 1 - 1.0 / 6);
  EXPECT_DOUBLE_EQ(megatron::share_of_tokens(moe, 3), 1);
}

TEST(MegatronExperts, AnUnevenLoadTakesMoreMemory) {
  MegatronJob imported =
      job_of("  --expert-model-parallel-size: 4\n  --moe-token-dispatcher-type: alltoall\n");
  const Bytes even = peak_of(run_of(imported));
  imported.job.routing = {.quantile = 0.9, .max_violation = 0.5};
  const Bytes ninety = peak_of(run_of(imported));
  imported.job.routing.quantile = 0.99;
  const EstimateRun uneven = run_of(imported);
  EXPECT_GT(ninety, even);
  EXPECT_GT(peak_of(uneven), ninety);
  imported.job.routing = {.quantile = 0.5, .max_violation = 0};
  EXPECT_EQ(peak_of(run_of(imported)), even);
  imported.job.routing = {.quantile = 0.9};
  const auto unsaid = try_run(imported);
  ASSERT_FALSE(unsaid);
  EXPECT_THAT(unsaid.error().to_text(), HasSubstr("routing.max_violation"));
}

TEST(MegatronExperts, EveryWayOfComputingThemIsPlayed) {
  for (const char* more :
       {"  --moe-permute-fusion: true\n", "  --moe-token-dispatcher-type: alltoall\n",
        "  --moe-token-dispatcher-type: alltoall\n  --moe-permute-fusion: true\n  --moe-grouped-gemm: true\n"
        "  --expert-model-parallel-size: 4\n  --moe-shared-expert-intermediate-size: 512\n",
        "  --moe-token-dispatcher-type: alltoall\n  --moe-grouped-gemm: true\n"
        "  --tensor-model-parallel-size: 2\n  --sequence-parallel: true\n  --expert-model-parallel-size: 4\n",
        "  --moe-token-dispatcher-type: alltoall\n  --moe-expert-capacity-factor: 1.0\n"
        "  --moe-pad-expert-input-to-capacity: true\n  --expert-model-parallel-size: 2\n",
        "  --moe-router-score-function: sigmoid\n  --moe-router-enable-expert-bias: true\n"
        "  --moe-router-num-groups: 4\n  --moe-router-group-topk: 2\n  --moe-router-topk: 2\n"
        "  --moe-router-dtype: fp32\n  --moe-router-topk-scaling-factor: 2.5\n",
        "  --moe-token-dispatcher-type: flex\n  --expert-model-parallel-size: 4\n"
        "  --moe-router-dtype: fp32\n  --moe-permute-fusion: true\n",
        "  --moe-aux-loss-coeff: 0.01\n  --moe-z-loss-coeff: 0.001\n",
        "  --moe-router-load-balancing-type: seq_aux_loss\n"
        "  --moe-token-dispatcher-type: flex\n  --expert-model-parallel-size: 4\n"
        "  --moe-router-dtype: fp32\n  --moe-permute-fusion: true\n",
        "  --moe-aux-loss-coeff: 0.01\n  --moe-z-loss-coeff: 0.001\n", "  --transformer-impl: local\n",
        "  --recompute-granularity: full\n  --recompute-method: uniform\n"}) {
    const auto run = try_run(job_of(more));
    EXPECT_TRUE(run) << more << run.error().to_text();
  }
}

TEST(MegatronExperts, DegreeOneIsTheSameProgram) {
  const EstimateRun plain = run_of(job_of("  --moe-token-dispatcher-type: alltoall\n"));
  const EstimateRun named =
      run_of(job_of("  --moe-token-dispatcher-type: alltoall\n  --expert-model-parallel-size: 1\n"
                    "  --expert-tensor-parallel-size: 1\n"));
  EXPECT_EQ(plain.program.statements.size(), named.program.statements.size());
  EXPECT_EQ(peak_of(plain), peak_of(named));
}

TEST(MegatronExperts, ContradictionsAreRefused) {
  const auto refused = [](const std::string& more) {
    const auto run = try_run(job_of(more));
    return run ? std::string() : run.error().to_text();
  };
  EXPECT_THAT(refused("  --expert-model-parallel-size: 3\n"), HasSubstr("8 experts don't divide"));
  EXPECT_THAT(refused("  --tensor-model-parallel-size: 2\n"), HasSubstr("--sequence-parallel"));
  EXPECT_THAT(refused("  --expert-model-parallel-size: 8\n  --pipeline-model-parallel-size: 2\n"),
              HasSubstr("no multiple of expert tensor"));
  EXPECT_THAT(refused("  --moe-grouped-gemm: true\n  --transformer-impl: local\n"), HasSubstr("grouped"));
}

// Of 8 ranks 4 divide the experts, so 2 hold the same ones and divide their optimizer states.
TEST(MegatronExperts, StatesOfExpertsAreDividedOverTheirOwnRanks) {
  const MegatronJob imported =
      job_of("  --use-distributed-optimizer: true\n  --expert-model-parallel-size: 4\n");
  const auto job = resolved(imported);
  ASSERT_TRUE(job) << job.error().to_text();
  EXPECT_EQ(megatron::data_ranks(*job, false), 8);
  EXPECT_EQ(megatron::data_ranks(*job, true), 2);
  const EstimateRun run = run_of(imported);
  std::map<uint32_t, int64_t> masters;  // by storage
  for (const TensorInfo& tensor : run.program.tensors) {
    const Storage& storage = run.program.storages[tensor.storage.value];
    const bool is_expert = run.program.module_name(storage.owner).find("experts") != std::string::npos;
    if (tensor.dtype == DType::kFloat32 && storage.category == Category::kMasterParameter && is_expert)
      masters[tensor.storage.value] = storage.bytes.value;
  }
  int64_t bytes = 0;
  for (const auto& [storage, size] : masters) bytes += size;
  // Four layers of 8 experts of three matrices of 1024 x 512, in fp32.
  EXPECT_EQ(bytes, int64_t{4} * 8 * 3 * 1024 * 512 * 4 / 4 / 2);
}

}  // namespace
}  // namespace plimsoll
