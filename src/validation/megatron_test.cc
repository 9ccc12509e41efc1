// Megatron-LM jobs from argument list to bytes: the argument sets whose figures on real GPUs are known, and
// laws.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "estimate/estimate.h"
#include "frameworks/build_training.h"
#include "frameworks/megatron/stage.h"
#include "hardware/catalog.h"
#include "importers/megatron/megatron_job.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

constexpr const char* kArguments = R"(ENV_VARS:
  CUBLAS_WORKSPACE_CONFIG: :4096:8
MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --micro-batch-size: 4
  --global-batch-size: 32
  --seq-length: 1024
  --max-position-embeddings: 1024
  --log-num-zeros-in-grad: true
  --deterministic-mode: true
  --no-gradient-accumulation-fusion: true
)";

MegatronJob job_of(const std::string& more) {
  const auto arguments = read_megatron_arguments_text(std::string(kArguments) + more, "list");
  EXPECT_TRUE(arguments) << arguments.error().to_text();
  auto imported = megatron_job(*arguments, {.gpus = 8});
  EXPECT_TRUE(imported) << imported.error().to_text();
  imported->job.hardware.gpu = "a100-80gb";
  return *std::move(imported);
}

EstimateRun run_of(const MegatronJob& imported, std::optional<int64_t> rank = std::nullopt) {
  const Gpu gpu = *find_gpu("a100-80gb");
  const Cluster cluster = *default_cluster_for(gpu);
  auto run = run_estimate({.architecture = imported.architecture,
                           .job = imported.job,
                           .gpu = gpu,
                           .node = cluster.node,
                           .rank = rank});
  EXPECT_TRUE(run) << run.error().to_text();
  return *std::move(run);
}

const PhaseMemory& phase(const EstimateRun& run, const std::string& name) {
  return *std::ranges::find(run.timeline.phases, name, &PhaseMemory::phase);
}

struct Measured {
  const char* arguments;
  int64_t end, most;  // bytes allocated after the last step, and at most
};

// Source: NVIDIA/Megatron-LM tests/functional_tests, golden values of gpt3_mcore_tp1_pp1_dist_optimizer_...
// and gpt3_mcore_te_tp1_pp1_... on dev_dgx_a100: mem-allocated-bytes, mem-max-allocated-bytes.
constexpr Measured kMeasured[] = {
    {"  --transformer-impl: local\n  --bf16: true\n  --use-distributed-optimizer: true\n"
     "  --overlap-grad-reduce: true\n",
     615'042'560, 4'735'983'616},
    {"  --transformer-impl: local\n  --fp16: true\n  --use-distributed-optimizer: true\n"
     "  --overlap-grad-reduce: true\n",
     518'880'768, 4'607'767'040},
    {"  --transformer-impl: transformer_engine\n  --bf16: true\n  --use-distributed-optimizer: true\n"
     "  --attention-backend: unfused\n",
     552'128'512, 4'673'069'568},
    {"  --transformer-impl: transformer_engine\n  --bf16: true\n  --use-distributed-optimizer: true\n",
     552'128'512, 2'711'714'304},
};

TEST(Megatron, AllocatedBytesAreThoseMeasured) {
  for (const Measured& measured : kMeasured) {
    const EstimateRun run = run_of(job_of(measured.arguments));
    EXPECT_EQ(phase(run, "stat2").live_end.value, measured.end) << measured.arguments;
    EXPECT_EQ(phase(run, "stat2").allocated_end.value, measured.end) << measured.arguments;
    Bytes live, allocated;
    for (const PhaseMemory& p : run.timeline.phases) {
      live = std::max(live, p.live_peak);
      allocated = std::max(allocated, p.allocated_peak);
    }
    EXPECT_EQ(live.value, measured.most) << measured.arguments;
    EXPECT_EQ(allocated.value, measured.most) << measured.arguments;
  }
}

// get_dummy_wgrad keeps one tensor in the parameters' dtype for each shape of weight.
TEST(Megatron, FusedWeightGradientsKeepOneDummyAShape) {
  std::string arguments = kArguments;
  const std::string flag = "  --no-gradient-accumulation-fusion: true\n";
  arguments.erase(arguments.find(flag), flag.size());
  const auto read = read_megatron_arguments_text(arguments + "  --bf16: true\n", "list");
  ASSERT_TRUE(read);
  auto imported = megatron_job(*read, {.gpus = 8});
  ASSERT_TRUE(imported) << imported.error().to_text();
  const EstimateRun run = run_of(*imported);
  std::map<std::string, int64_t> dummies;
  for (const Storage& storage : run.program.storages)
    if (const std::string& owner = run.program.module_name(storage.owner); owner.starts_with("dummy_wgrad"))
      dummies[owner] += storage.bytes.value;
  EXPECT_EQ(dummies, (std::map<std::string, int64_t>{{"dummy_wgrad.1536x512", 1536 * 512 * 2},
                                                     {"dummy_wgrad.512x512", 512 * 512 * 2},
                                                     {"dummy_wgrad.2048x512", 2048 * 512 * 2},
                                                     {"dummy_wgrad.512x2048", 512 * 2048 * 2},
                                                     {"dummy_wgrad.50304x512", 50304 * 512 * 2}}));
}

TEST(Megatron, TooManyMicroBatchesAreRefused) {
  MegatronJob imported = job_of("  --bf16: true\n");
  imported.job.batch.global_batch = int64_t{32} * 10'000'000;
  const Gpu gpu = *find_gpu("a100-80gb");
  const Cluster cluster = *default_cluster_for(gpu);
  const auto run = run_estimate(
      {.architecture = imported.architecture, .job = imported.job, .gpu = gpu, .node = cluster.node});
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message.find("too many to be played"), std::string::npos);
}

// Micro-batches (chunks of them) in flight: forwards that have run and wait for their backward.
int64_t most_in_flight(const EstimateRun& run) {
  int64_t now = 0, most = 0;
  for (const PhaseStep& step : run.program.schedule) {
    if (step.phase.starts_with("fwd2")) most = std::max(most, ++now);
    if (step.phase.starts_with("bwd2")) --now;
  }
  return most;
}

// Source of both closed forms: Narayanan et al., arXiv:2104.04473, section 2.2.
TEST(Megatron, OneForwardOneBackwardKeepsAStagesDepthInFlight) {
  const MegatronJob job = job_of("  --bf16: true\n  --pipeline-model-parallel-size: 4\n");
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(most_in_flight(run_of(job, rank)), std::min<int64_t>(4, 4 - rank)) << rank;
}
TEST(Megatron, InterleavingKeepsMoreChunksInFlight) {
  const MegatronJob job = job_of(
      "  --bf16: true\n  --pipeline-model-parallel-size: 4\n  --num-layers-per-virtual-pipeline-stage: 1\n");
  constexpr int64_t kMicroBatches = 4, kChunks = 3, kRanks = 4;
  for (int64_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(most_in_flight(run_of(job, rank)),
              std::min(kMicroBatches * kChunks, 2 * (kRanks - rank - 1) + (kChunks - 1) * kRanks + 1))
        << rank;
}

// What the ranks hold makes up the model: each split tensor once over the tensor-parallel ranks, the shared
// embedding once.
TEST(Megatron, ParametersOfAllRanksAreTheModels) {
  const auto held = [](const std::string& more) {
    const MegatronJob imported = job_of("  --bf16: true\n  --make-vocab-size-divisible-by: 64\n" + more);
    const auto job = resolve(imported.job, imported.architecture, {.name = "a100", .multiprocessors = 108});
    EXPECT_TRUE(job) << job.error().to_text();
    int64_t elements = 0;
    for (int64_t rank = 0; rank < job->mesh.pipeline; ++rank) {
      const auto stage = megatron::stage_of(imported.architecture, *job, rank);
      for (const megatron::Chunk& chunk : stage->chunks)
        for (const megatron::StageParameter& p : megatron::parameters_of(imported.architecture, *job, chunk))
          if (!p.is_shared) elements += p.elements() * (p.is_split ? job->mesh.tensor : 1);
    }
    return elements;
  };
  constexpr const char* kDegrees[] = {"  --pipeline-model-parallel-size: 2\n",
                                      "  --pipeline-model-parallel-size: 4\n"
                                      "  --num-layers-per-virtual-pipeline-stage: 1\n"};
  const int64_t whole = held("");
  for (const char* degrees : kDegrees) EXPECT_EQ(held(degrees), whole) << degrees;
  // The vocabulary is padded for the ranks: 50304 = 393 * 128 rows with one or two of them.
  EXPECT_EQ(held("  --tensor-model-parallel-size: 2\n"), whole);
}

}  // namespace
}  // namespace plimsoll
