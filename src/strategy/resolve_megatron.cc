// A Megatron-LM job has no open questions but its data-parallel degree and its micro-batches: the argument
// list holds the rest. Source: megatron/training/arguments.py (validate_args),
// megatron/core/num_microbatches_calculator.py.
#include "strategy/resolve_megatron.h"

#include <fmt/format.h>

#include <algorithm>

#include "strategy/routing_load.h"

namespace plimsoll {
namespace {

std::optional<Error> mesh_error(const Job& job, const Architecture& a) {
  const ParallelChoice& p = job.parallel;
  const int64_t model = p.tensor * p.pipeline * p.context;
  const auto error = [](std::string message, std::string expected) {
    return Error{.message = std::move(message), .expected = std::move(expected)};
  };
  if (job.hardware.gpus % model != 0)
    return error(fmt::format("{} GPUs are no multiple of tensor {} x pipeline {} x context {} = {}",
                             job.hardware.gpus, p.tensor, p.pipeline, p.context, model),
                 "--gpus N, a multiple of it");
  for (const Layer& layer : a.layers)
    if (layer.attention.heads % p.tensor != 0)
      return error(
          fmt::format("{} heads don't divide over {} tensor-parallel ranks", layer.attention.heads, p.tensor),
          "a divisor of the heads");
  if (a.hidden % p.tensor != 0 || a.hidden % a.layers.front().attention.heads != 0)
    return error(
        fmt::format("hidden size {} doesn't divide over the heads and tensor-parallel ranks", a.hidden),
        "a multiple of both");
  return std::nullopt;
}

const Moe* experts_of(const Architecture& a) {
  for (const Layer& layer : a.layers)
    if (layer.moe) return &*layer.moe;
  return nullptr;
}

// Source: moe_layer.py, transformer_config.py, parallel_state.py.
std::optional<Error> expert_error(const ResolvedJob& r, const Architecture& a) {
  const MegatronExperts& e = r.megatron->experts;
  const auto error = [](std::string message, std::string expected) {
    return Error{.message = std::move(message), .expected = std::move(expected)};
  };
  const Moe* const moe = experts_of(a);
  if (!moe) return std::nullopt;
  const int64_t tensor = e.tensor_ranks.value_or(r.mesh.tensor),
                model = tensor * e.expert_ranks * r.mesh.pipeline;
  if (moe->experts % e.expert_ranks != 0)
    return error(
        fmt::format("{} experts don't divide over {} expert-parallel ranks", moe->experts, e.expert_ranks),
        "a divisor of --num-experts");
  if (r.mesh.world % model != 0)
    return error(fmt::format("{} GPUs are no multiple of expert tensor {} x expert {} x pipeline {} = {}",
                             r.mesh.world, tensor, e.expert_ranks, r.mesh.pipeline, model),
                 "--gpus N, a multiple of it");
  if (moe->expert_intermediate % tensor != 0)
    return error(fmt::format("experts of width {} don't divide over {} expert tensor-parallel ranks",
                             moe->expert_intermediate, tensor),
                 "a divisor of --moe-ffn-hidden-size");
  if (r.mesh.tensor > 1 && !r.megatron->has_sequence_parallel)
    return error("experts need sequence parallelism where there is tensor parallelism",
                 "--sequence-parallel");
  const bool is_te = r.megatron->layers == MegatronLayers::kTransformerEngine;
  if (!r.megatron->has_transformer_engine)
    return error("experts without Transformer Engine are not modelled yet", "Transformer Engine installed");
  if (e.has_grouped_gemm && !is_te)
    return error("grouped products of local layers are not modelled yet",
                 "--transformer-impl transformer_engine");
  if (e.pads_to_capacity && e.dispatcher != MegatronDispatcher::kAllToAll)
    return error("--moe-pad-expert-input-to-capacity needs another dispatcher",
                 "--moe-token-dispatcher-type alltoall");
  if (e.dispatcher == MegatronDispatcher::kFlex && tensor * e.expert_ranks == 1)
    return error("--moe-token-dispatcher-type flex needs several ranks with experts",
                 "--expert-model-parallel-size of 2 or more");
  if (e.pads_to_capacity && e.fuses_permutation)
    return error("fused permutation of padded experts is not modelled yet", "no --moe-permute-fusion");
  return std::nullopt;
}

// The traced rank's share of the rows, and what is to be said of it.
std::optional<Error> apply_routing(const RoutingChoice& routing, const Architecture& a, ResolvedJob& r) {
  const Moe* const moe = experts_of(a);
  if (!moe) {
    if (!routing.quantile) return std::nullopt;
    return Error{.position = {.key = "routing.quantile"}, .message = "the model has no experts"};
  }
  MegatronExperts& e = r.megatron->experts;
  if (e.dispatcher == MegatronDispatcher::kFlex)
    r.notes.emplace_back("DeepEP's own buffers lie outside of PyTorch's allocator and are not counted");
  if (e.pads_to_capacity) return std::nullopt;
  if (!routing.quantile) {
    r.notes.emplace_back(
        "tokens are spread evenly over the experts; routing.quantile and routing.max_violation say "
        "otherwise");
    return std::nullopt;
  }
  if (!routing.max_violation)
    return Error{.position = {.key = "routing.quantile"},
                 .message = "says which load to take, but not how uneven it is",
                 .expected = "routing.max_violation besides"};
  e.load = routing_load({.experts = moe->experts,
                         .local = moe->experts / e.expert_ranks,
                         .per_token = moe->experts_per_token,
                         .max_violation = *routing.max_violation},
                        *routing.quantile);
  r.notes.push_back(
      fmt::format("every layer's experts get {:.3f} times an even share: the {} quantile of a rank's load "
                  "where the fullest expert is {} above the mean",
                  e.load, *routing.quantile, *routing.max_violation));
  return std::nullopt;
}

std::optional<Error> layer_error(const ResolvedJob& r, const Architecture& a) {
  const bool is_te = r.megatron->layers == MegatronLayers::kTransformerEngine;
  if (!is_te && a.norm.kind == NormKind::kRmsNorm)
    return Error{.message = "RMSNorm of local layers is not modelled yet",
                 .expected = "--transformer-impl transformer_engine"};
  if (!is_te && a.layers.front().attention.latent)
    return Error{.message = "latent attention of local layers is not modelled yet",
                 .expected = "--transformer-impl transformer_engine"};
  if (r.megatron->has_sequence_parallel && r.batch.sequence % r.mesh.tensor != 0)
    return Error{.message = fmt::format("a sequence of {} doesn't divide over {} tensor-parallel ranks",
                                        r.batch.sequence, r.mesh.tensor),
                 .expected = "a multiple of --tensor-model-parallel-size"};
  return std::nullopt;
}

std::optional<Error> batch_error(const ResolvedJob& r) {
  const int64_t ranks = r.batch.micro_batch * r.mesh.data;
  if (r.batch.global_batch % ranks == 0) return std::nullopt;
  return Error{
      .message = fmt::format("global batch {} is no multiple of micro-batch {} x data-parallel ranks {}",
                             r.batch.global_batch, r.batch.micro_batch, r.mesh.data),
      .expected = fmt::format("a multiple of {}", ranks)};
}

std::optional<Error> settings_error(const ResolvedJob& r) {
  const MegatronSettings& m = *r.megatron;
  if (m.optimizer_instances > 1 && !m.has_distributed_optimizer)
    return Error{.message = "--num-distributed-optimizer-instances needs the distributed optimizer",
                 .expected = "--use-distributed-optimizer"};
  if (r.mesh.data % m.optimizer_instances != 0)
    return Error{.message = fmt::format("{} data-parallel ranks don't divide over {} optimizer instances",
                                        r.mesh.data, m.optimizer_instances)};
  if (m.fuses_weight_gradients && !m.has_transformer_engine)
    return Error{.message =
                     "weight gradients fused into the gradient buffer without Transformer Engine are not "
                     "modelled yet",
                 .expected = "--no-gradient-accumulation-fusion"};
  const bool has_masks = m.has_mask_in_dataloader && r.mesh.pipeline <= 2 && m.virtual_stages == 1;
  if (m.layers == MegatronLayers::kLocal && !m.fuses_masked_softmax && !has_masks)
    return Error{
        .message = "the softmax without its fused kernel is not modelled yet where a stage has no mask",
        .expected = "at most two pipeline stages, and masks from the data loader"};
  const bool is_te = m.layers == MegatronLayers::kTransformerEngine;
  if (is_te && m.attention == MegatronAttention::kLocal)
    return Error{.message = "--attention-backend local needs local layers",
                 .expected = "--transformer-impl local, or another backend"};
  if (is_te && m.attention == MegatronAttention::kAutomatic && !m.is_deterministic)
    return Error{.message =
                     "which attention Transformer Engine chooses without --deterministic-mode is not "
                     "modelled yet",
                 .expected = "--attention-backend flash or unfused"};
  return std::nullopt;
}

}  // namespace

Result<ResolvedJob> resolve_megatron(const Job& job, const Architecture& architecture, const GpuFacts& gpu) {
  if (!job.megatron)
    return fail({.position = {.key = "framework"},
                 .message = "a job of framework megatron comes from its argument list",
                 .expected = "--from FILE"});
  if (auto error = mesh_error(job, architecture)) return fail(*std::move(error));
  const ParallelChoice& p = job.parallel;
  ResolvedJob r{.framework = Framework::kMegatron, .megatron = job.megatron};
  r.mesh = {
      .world = job.hardware.gpus,
      .data = job.hardware.gpus / (p.tensor * p.pipeline * p.context),
      .tensor = p.tensor,
      .pipeline = p.pipeline,
      .context = p.context,
      .gpus_per_node = std::min(job.hardware.gpus, job.hardware.gpus_per_node.value_or(gpu.gpus_per_node))};
  r.mesh.replicate = r.mesh.data;
  r.precision = Precision::kMixedBFloat16;
  r.batch = {.sequence = job.batch.sequence.value_or(1), .micro_batch = job.batch.micro_batch.value_or(1)};
  r.batch.global_batch = job.batch.global_batch.value_or(r.batch.micro_batch * r.mesh.data);
  r.batch.accumulation = std::max<int64_t>(1, r.batch.global_batch / (r.batch.micro_batch * r.mesh.data));
  r.loop.has_evaluation = false;
  r.loop.has_save = false;
  r.allocator = job.allocator;
  r.gpu_multiprocessors = gpu.multiprocessors;
  r.gpu_compute_capability = gpu.compute_capability;
  r.mesh.expert = r.megatron->experts.expert_ranks;
  if (auto error = batch_error(r)) return fail(*std::move(error));
  if (auto error = expert_error(r, architecture)) return fail(*std::move(error));
  if (auto error = layer_error(r, architecture)) return fail(*std::move(error));
  if (auto error = apply_routing(job.routing, architecture, r)) return fail(*std::move(error));
  if (auto error = settings_error(r)) return fail(*std::move(error));
  if (r.megatron->layers == MegatronLayers::kTransformerEngine &&
      r.megatron->attention == MegatronAttention::kAutomatic)
    r.notes.emplace_back(
        "--attention-backend auto is played as FlashAttention 2: Transformer Engine may choose cuDNN's or "
        "FlashAttention 3 on Hopper and later GPUs");
  if (architecture.layers.front().attention.latent && r.megatron->attention != MegatronAttention::kUnfused)
    r.notes.emplace_back(
        "latent attention is played as FlashAttention with heads of two sizes; what cuDNN's kernel needs "
        "besides "
        "is not known");
  r.notes.emplace_back("evaluation and saving of a Megatron-LM job are not played");
  return r;
}

}  // namespace plimsoll
