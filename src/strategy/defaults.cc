// `with_defaults` of strategy/resolve.h: each value that depends on the rest of the job, and why.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/units.h"
#include "strategy/names.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

constexpr int64_t kDefaultSequence = 4096;

void assume(ResolvedJob& resolved, std::string field, std::string value, std::string reason) {
  resolved.assumed.push_back(
      {.field = std::move(field), .value = std::move(value), .reason = std::move(reason)});
}
void assume(ResolvedJob& resolved, std::string field, int64_t value, std::string reason) {
  assume(resolved, std::move(field), std::to_string(value), std::move(reason));
}

int64_t model_ranks(const ParallelChoice& parallel) {
  return saturating_multiply(saturating_multiply(parallel.tensor, parallel.pipeline), parallel.context);
}

int64_t largest_divisor_up_to(int64_t number, int64_t limit) {
  for (int64_t divisor = std::min(number, limit); divisor > 1; --divisor)
    if (number % divisor == 0) return divisor;
  return 1;
}

void decide_nodes(const Job& job, const GpuFacts& gpu, ResolvedJob& resolved) {
  const int64_t gpus = job.hardware.gpus;
  if (job.hardware.gpus_per_node) {
    resolved.mesh.gpus_per_node = std::min(*job.hardware.gpus_per_node, gpus);
    return;
  }
  const int64_t usual = std::max<int64_t>(gpu.gpus_per_node, 1);
  resolved.mesh.gpus_per_node = largest_divisor_up_to(gpus, usual);
  assume(resolved, "hardware.gpus_per_node", resolved.mesh.gpus_per_node,
         fmt::format("usual nodes hold {}, {} GPUs in all", usual, gpus));
}

void decide_mesh(const Job& job, ResolvedJob& resolved) {
  const ParallelChoice& parallel = job.parallel;
  Mesh& mesh = resolved.mesh;
  mesh.world = job.hardware.gpus;
  mesh.tensor = parallel.tensor;
  mesh.pipeline = parallel.pipeline;
  mesh.context = parallel.context;
  mesh.expert = parallel.expert;
  mesh.data = parallel.data.value_or(std::max<int64_t>(1, mesh.world / model_ranks(parallel)));
  if (!parallel.data && mesh.world > 1)
    assume(resolved, "parallel.data", mesh.data,
           fmt::format("{} GPUs / {} model-parallel ranks", mesh.world, model_ranks(parallel)));
}

void decide_engine(const Job& job, ResolvedJob& resolved) {
  Mesh& mesh = resolved.mesh;
  const bool is_parallel = mesh.data > 1;
  const DataParallelEngine sharding =
      job.framework == Framework::kNative ? DataParallelEngine::kZero : DataParallelEngine::kFsdp2;
  resolved.engine = job.engine.value_or(is_parallel ? sharding : DataParallelEngine::kNone);
  if (!job.engine)
    assume(resolved, "parallel.engine", std::string(name_of(resolved.engine)),
           is_parallel ? fmt::format("shards everything over {} data-parallel ranks", mesh.data)
                       : "one data-parallel rank has nothing to share");
  const int64_t replicate = std::clamp<int64_t>(job.fsdp2.replicate, 1, mesh.data);
  const bool is_zero_sharded = resolved.engine == DataParallelEngine::kZero && job.zero.stage > 0;
  mesh.replicate = resolved.engine == DataParallelEngine::kFsdp2 ? replicate
                   : is_zero_sharded                             ? 1
                                                                 : mesh.data;
  mesh.shard = std::max<int64_t>(1, mesh.data / mesh.replicate);
  auto& root_reshard = resolved.fsdp2.root_reshard_after_forward;
  root_reshard = job.fsdp2.reshard_after_forward && root_reshard.value_or(false);
}

// from_pretrained() of Transformers 5 loads a model in the dtype that its configuration names, else in that
// of the checkpoint: those from before it was recorded are in fp32. from_config() makes fp32 then too.
Precision published_precision(const Architecture& architecture) {
  if (architecture.published_dtype == DType::kBFloat16) return Precision::kBFloat16;
  if (architecture.published_dtype == DType::kFloat16) return Precision::kFloat16;
  return Precision::kFloat32;
}

void decide_precision(const Job& job, const Architecture& architecture, ResolvedJob& resolved) {
  const bool is_sharded = resolved.engine == DataParallelEngine::kFsdp2;
  if (job.framework == Framework::kNative) {
    resolved.precision = job.precision.value_or(Precision::kMixedBFloat16);
    if (!job.precision)
      assume(resolved, "precision", std::string(name_of(resolved.precision)),
             "bf16 compute over fp32 master weights");
    return;
  }
  resolved.precision =
      job.precision.value_or(is_sharded ? Precision::kFloat32 : published_precision(architecture));
  if (job.precision) return;
  assume(resolved, "precision", std::string(name_of(resolved.precision)),
         is_sharded ? "fp32 shards and optimizer states, fsdp2.param_dtype is what is computed in"
         : architecture.published_dtype
             ? "a model is loaded in the dtype it is published in"
             : "the configuration names no dtype: PyTorch's default, and what older checkpoints hold");
}

void decide_sequence(const Job& job, const Architecture& architecture, ResolvedJob& resolved) {
  const int64_t limit = architecture.max_position;
  const bool is_limited = limit > 0 && limit < kDefaultSequence;
  resolved.batch.sequence = job.batch.sequence.value_or(is_limited ? limit : kDefaultSequence);
  if (!job.batch.sequence)
    assume(resolved, "batch.sequence", resolved.batch.sequence,
           is_limited ? fmt::format("the model's limit, lower than {}", kDefaultSequence) : "a usual length");
}

int64_t quotient(int64_t number, int64_t divisor) { return std::max<int64_t>(1, number / divisor); }

void decide_micro_batch(const Job& job, ResolvedJob& resolved) {
  const BatchChoice& choice = job.batch;
  if (choice.micro_batch) {
    resolved.batch.micro_batch = *choice.micro_batch;
  } else if (choice.global_batch && choice.accumulation) {
    resolved.batch.micro_batch = quotient(*choice.global_batch, *choice.accumulation * resolved.mesh.data);
    assume(resolved, "batch.micro_batch", resolved.batch.micro_batch,
           "global_batch / (accumulation x data-parallel ranks)");
  } else {
    resolved.batch.micro_batch = 1;
    assume(resolved, "batch.micro_batch", 1, "the smallest");
  }
}

void decide_accumulation(const Job& job, ResolvedJob& resolved) {
  const BatchChoice& choice = job.batch;
  if (choice.accumulation) {
    resolved.batch.accumulation = *choice.accumulation;
  } else if (choice.global_batch) {
    resolved.batch.accumulation =
        quotient(*choice.global_batch, resolved.batch.micro_batch * resolved.mesh.data);
    assume(resolved, "batch.accumulation", resolved.batch.accumulation,
           "global_batch / (micro_batch x data-parallel ranks)");
  } else {
    resolved.batch.accumulation = 1;
    assume(resolved, "batch.accumulation", 1, "no accumulation");
  }
}

void decide_batch(const Job& job, const Architecture& architecture, ResolvedJob& resolved) {
  decide_sequence(job, architecture, resolved);
  decide_micro_batch(job, resolved);
  decide_accumulation(job, resolved);
  Batch& batch = resolved.batch;
  batch.global_batch = saturating_multiply(batch.micro_batch * batch.accumulation, resolved.mesh.data);
  if (!job.batch.global_batch)
    assume(resolved, "batch.global_batch", batch.global_batch,
           fmt::format("micro_batch {} x accumulation {} x data-parallel ranks {}", batch.micro_batch,
                       batch.accumulation, resolved.mesh.data));
}

void decide_optimizer(const Job& job, ResolvedJob& resolved) {
  resolved.optimizer = job.optimizer;
  const bool is_given = job.given.contains("optimizer.name") || job.optimizer != Optimizer{};
  if (!is_given && job.framework == Framework::kTorchtitan) {
    resolved.optimizer.implementation = OptimizerImplementation::kFused;
    assume(resolved, "optimizer.name", name_of(resolved.optimizer), "torchtitan's default");
    return;
  }
  if (is_given || resolved.engine != DataParallelEngine::kFsdp2 || !job.fsdp2.cpu_offload) return;
  resolved.optimizer.implementation = OptimizerImplementation::kForLoop;
  assume(resolved, "optimizer.name", name_of(resolved.optimizer),
         "AdamW on parameters of the host takes the for-loop by default");
  resolved.notes.emplace_back("optimizer.name = adamw-loop: torch's own choice for parameters on the host");
}

void decide_blocks(const Job& job, const Architecture& architecture, ResolvedJob& resolved) {
  resolved.attention = job.attention.implementation.value_or(default_attention(architecture.family));
  resolved.sdpa_backend = job.attention.sdpa_backend;
  if (!job.attention.implementation)
    assume(resolved, "attention.implementation", std::string(name_of(resolved.attention)),
           fmt::format("Transformers' default for {}", architecture.family));
  resolved.experts = job.experts.value_or(ExpertsImplementation::kGroupedMm);
  if (!job.experts && has_experts(architecture))
    assume(resolved, "experts.implementation", std::string(name_of(resolved.experts)),
           "Transformers' default");
}

constexpr std::array<std::string_view, 3> kWithoutSdpa = {"bloom", "gemma2", "gpt_oss"};
// gpt_oss: its attention sinks need another flash kernel than FlashAttention 2.
constexpr std::array<std::string_view, 4> kWithoutFlash = {"bloom", "gpt_oss", "llama4", "llama4_text"};

bool is_among(std::span<const std::string_view> families, std::string_view family) {
  return std::ranges::find(families, family) != families.end();
}

// Source: torchtitan/models/attention.py: 0.2.2 ranks cuDNN first, 0.1.0 only from sm_100 on.
constexpr int kBlackwell = 100;
void decide_torchtitan(const Job& job, const GpuFacts& gpu, ResolvedJob& resolved) {
  if (job.framework != Framework::kTorchtitan) return;
  if (!job.loop.clip_max_norm) {
    resolved.loop.clip_max_norm = 1.0;
    assume(resolved, "loop.clip_max_norm", "1.0", "torchtitan always clips; its default");
  }
  if (job.allocator.configuration.empty() && !job.given.contains("allocator.configuration")) {
    resolved.allocator.configuration = "expandable_segments:True";
    assume(resolved, "allocator.configuration", resolved.allocator.configuration,
           "as torchtitan's run_train.sh sets it");
  }
  const bool ranks_cudnn_first =
      job.torchtitan.release != TorchtitanRelease::k010 || gpu.compute_capability.value_or(0) >= kBlackwell;
  if (job.attention.sdpa_backend != SdpaBackend::kAutomatic || !ranks_cudnn_first) return;
  resolved.sdpa_backend = SdpaBackend::kCudnnFirst;
  assume(resolved, "attention.sdpa_backend", std::string(name_of(resolved.sdpa_backend)),
         "torchtitan's order of kernels");
}

}  // namespace

AttentionImplementation default_attention(std::string_view family) {
  return has_attention(family, AttentionImplementation::kSdpa) ? AttentionImplementation::kSdpa
                                                               : AttentionImplementation::kEager;
}

bool has_attention(std::string_view family, AttentionImplementation implementation) {
  switch (implementation) {
    case AttentionImplementation::kEager:
      return true;
    case AttentionImplementation::kSdpa:
      return !is_among(kWithoutSdpa, family);
    case AttentionImplementation::kFlashAttention2:
      return !is_among(kWithoutFlash, family);
  }
  return false;
}

bool has_experts(const Architecture& architecture) {
  return std::ranges::any_of(architecture.layers, [](const Layer& layer) { return layer.moe.has_value(); });
}

std::optional<int> compute_capability_of(std::string_view architecture) {
  constexpr std::string_view kPrefix = "sm_";
  if (!architecture.starts_with(kPrefix)) return std::nullopt;
  architecture.remove_prefix(kPrefix.size());
  int number = 0;
  const auto [end, error] =
      std::from_chars(architecture.data(), architecture.data() + architecture.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

ResolvedJob with_defaults(const Job& job, const Architecture& architecture, const GpuFacts& gpu) {
  ResolvedJob resolved{.framework = job.framework,
                       .ddp = job.ddp,
                       .fsdp2 = job.fsdp2,
                       .zero = job.zero,
                       .offload = job.offload,
                       .torchtitan = job.torchtitan,
                       .recompute = job.recompute,
                       .loss = job.loss,
                       .loop = job.loop,
                       .allocator = job.allocator,
                       .run = job.run,
                       .data = job.data};
  decide_nodes(job, gpu, resolved);
  decide_mesh(job, resolved);
  decide_engine(job, resolved);
  decide_precision(job, architecture, resolved);
  decide_batch(job, architecture, resolved);
  decide_optimizer(job, resolved);
  decide_blocks(job, architecture, resolved);
  decide_torchtitan(job, gpu, resolved);
  return resolved;
}

}  // namespace plimsoll
