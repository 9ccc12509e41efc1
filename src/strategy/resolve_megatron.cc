// A Megatron-LM job has no open questions but its data-parallel degree and its micro-batches: the argument
// list holds the rest. Source: megatron/training/arguments.py (validate_args),
// megatron/core/num_microbatches_calculator.py.
#include "strategy/resolve_megatron.h"

#include <fmt/format.h>

#include <algorithm>

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
  if (auto error = batch_error(r)) return fail(*std::move(error));
  if (auto error = settings_error(r)) return fail(*std::move(error));
  if (r.megatron->layers == MegatronLayers::kTransformerEngine &&
      r.megatron->attention == MegatronAttention::kAutomatic)
    r.notes.emplace_back(
        "--attention-backend auto is played as FlashAttention 2: Transformer Engine may choose cuDNN's or "
        "FlashAttention 3 on Hopper and later GPUs");
  r.notes.emplace_back("evaluation and saving of a Megatron-LM job are not played");
  return r;
}

}  // namespace plimsoll
