// Checks of the mesh, the data-parallel engine and the batch (strategy/case.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "strategy/case.h"
#include "strategy/limits.h"
#include "strategy/names.h"

namespace plimsoll {
namespace {

int64_t model_ranks(const Mesh& mesh) {
  return saturating_multiply(saturating_multiply(mesh.tensor, mesh.pipeline), mesh.context);
}

std::string model_factors(const Mesh& mesh) {
  return fmt::format("tensor {} x pipeline {} x context {}", mesh.tensor, mesh.pipeline, mesh.context);
}

void check_unsupported_degree(std::string_view axis, int64_t degree, Errors& errors) {
  if (degree == 1) return;
  add(errors, {.field = fmt::format("parallel.{}", axis),
               .message = fmt::format("{} parallelism of degree {} is not supported yet", axis, degree),
               .expected = fmt::format(
                   "parallel.{} = 1; supported are tensor and data parallelism (none, ddp, fsdp2)", axis)});
}

// parallelize_module with the plan for llama-like blocks (frameworks/pytorch/tensor_parallel.h).
void check_tensor_parallel(const Case& c, Errors& errors) {
  const int64_t degree = c.job.parallel.tensor;
  if (degree == 1) return;
  constexpr std::array<std::string_view, 4> kFamilies = {"llama", "mistral", "qwen2", "qwen3"};
  if (std::ranges::find(kFamilies, c.architecture.family) == kFamilies.end())
    add(errors, {.field = "parallel.tensor",
                 .message = fmt::format("tensor parallelism of family {} is not supported yet",
                                        c.architecture.family),
                 .expected = fmt::format("1, or one of the families {}", fmt::join(kFamilies, ", "))});
  if (c.resolved.engine == DataParallelEngine::kDdp)
    add(errors, {.field = "parallel.engine",
                 .message = "ddp does not take the distributed tensors of tensor parallelism",
                 .expected = "fsdp2, or parallel.tensor = 1"});
  const auto check_divides = [&](std::string_view what, int64_t size) {
    if (size % degree != 0)
      add(errors, {.field = "parallel.tensor",
                   .message = fmt::format("{} does not divide the {} {}", degree, size, what),
                   .expected = "a divisor of them"});
  };
  const Layer& layer = c.architecture.layers.front();
  check_divides("attention heads", layer.attention.heads);
  check_divides("key/value heads", layer.attention.kv_heads);
  if (layer.mlp) check_divides("columns of the feed-forward layer", layer.mlp->intermediate);
}

void check_degrees(const Case& c, Errors& errors) {
  check_tensor_parallel(c, errors);
  check_unsupported_degree("pipeline", c.job.parallel.pipeline, errors);
  check_unsupported_degree("context", c.job.parallel.context, errors);
  check_unsupported_degree("expert", c.job.parallel.expert, errors);
  if (c.job.parallel.sequence)
    add(errors, {.field = "parallel.sequence",
                 .message = "sequence parallelism is not supported yet",
                 .expected = "parallel.sequence = false"});
}

void check_product(const Case& c, Errors& errors) {
  const Mesh& mesh = c.resolved.mesh;
  const int64_t ranks = model_ranks(mesh);
  const int64_t product = saturating_multiply(ranks, mesh.data);
  if (product == mesh.world) return;
  if (c.job.parallel.data)
    add(errors, {.field = "hardware.gpus",
                 .message = fmt::format("{} is not data {} x {} = {}", mesh.world, mesh.data,
                                        model_factors(mesh), product),
                 .expected = "the product of all degrees"});
  else
    add(errors,
        {.field = "hardware.gpus",
         .message = fmt::format("{} is not a multiple of {} = {}", mesh.world, model_factors(mesh), ranks),
         .expected = "a multiple of the model-parallel degrees"});
}

void check_nodes(const Case& c, Errors& errors) {
  const Mesh& mesh = c.resolved.mesh;
  if (mesh.world % mesh.gpus_per_node == 0) return;
  add(errors, {.field = "hardware.gpus",
               .message = fmt::format("{} is not a multiple of hardware.gpus_per_node {}", mesh.world,
                                      mesh.gpus_per_node),
               .expected = "nodes with the same number of GPUs each"});
}

void check_framework(const Case& c, Errors& errors) {
  const Framework framework = c.job.framework;
  if (framework == Framework::kPytorch || framework == Framework::kTorchtitan ||
      framework == Framework::kNative)
    return;
  add(errors, {.field = "framework",
               .message = fmt::format("{} is not supported yet", name_of(c.job.framework)),
               .expected = "pytorch, torchtitan or native"});
}

void check_only_natives(const Case& c, Errors& errors) {
  if (c.job.framework == Framework::kNative) return;
  if (c.resolved.engine == DataParallelEngine::kZero)
    add(errors, {.field = "parallel.engine",
                 .message = fmt::format("zero is not an engine of {}", name_of(c.job.framework)),
                 .expected = "none, ddp or fsdp2, or framework = native"});
  if (has_master_weights(c.resolved.precision))
    add(errors, {.field = "precision",
                 .message = fmt::format("{} is not supported with framework {} yet",
                                        name_of(c.resolved.precision), name_of(c.job.framework)),
                 .expected = "fp32, bf16, fp16, amp-bf16 or amp-fp16, or framework = native"});
}

void check_engine_has_ranks(const Case& c, Errors& errors) {
  const int64_t data = c.resolved.mesh.data;
  const std::string_view name = name_of(c.resolved.engine);
  if (c.resolved.engine == DataParallelEngine::kNone && data > 1)
    add(errors, {.field = "parallel.engine",
                 .message = fmt::format("none trains on one GPU, but there are {} data-parallel ranks", data),
                 .expected = c.job.framework == Framework::kNative ? "zero, or hardware.gpus = 1"
                                                                   : "ddp or fsdp2, or hardware.gpus = 1"});
  const bool divides =
      c.resolved.engine == DataParallelEngine::kDdp || c.resolved.engine == DataParallelEngine::kFsdp2;
  if (divides && data == 1)
    add(errors, {.field = "parallel.engine",
                 .message = fmt::format("{} over a single data-parallel rank is not supported", name),
                 .expected = "none, or more GPUs"});
}

void check_replicate(const Case& c, Errors& errors) {
  const int64_t replicate = c.job.fsdp2.replicate, data = c.resolved.mesh.data;
  if (replicate == 1) return;
  if (data % replicate != 0)
    add(errors, {.field = "fsdp2.replicate",
                 .message = fmt::format("{} does not divide the {} data-parallel ranks", replicate, data),
                 .expected = "a divisor of them"});
  else if (data == replicate)
    add(errors, {.field = "fsdp2.replicate",
                 .message = fmt::format("{} copies over {} data-parallel ranks leave nothing to shard",
                                        replicate, data),
                 .expected = "fewer copies, or parallel.engine = ddp"});
}

void check_units(const Case& c, Errors& errors) {
  if (!c.job.fsdp2.split_head || !c.architecture.is_tied) return;
  add(errors, {.field = "fsdp2.split_head",
               .message = fmt::format("embedding and head of {} are tied and can't be units of their own",
                                      c.architecture.name),
               .expected = "false"});
}

// --- batch ---

std::string divisor_text(const Case& c) {
  const Batch& batch = c.resolved.batch;
  const int64_t data = c.resolved.mesh.data;
  if (!c.job.batch.accumulation)
    return fmt::format("a multiple of micro_batch {} x data-parallel ranks {} = {}", batch.micro_batch, data,
                       saturating_multiply(batch.micro_batch, data));
  if (!c.job.batch.micro_batch)
    return fmt::format("a multiple of accumulation {} x data-parallel ranks {} = {}", batch.accumulation,
                       data, saturating_multiply(batch.accumulation, data));
  return fmt::format("micro_batch {} x accumulation {} x data-parallel ranks {} = {}", batch.micro_batch,
                     batch.accumulation, data, batch.global_batch);
}

void check_global_batch(const Case& c, Errors& errors) {
  const auto& global = c.job.batch.global_batch;
  if (!global || *global == c.resolved.batch.global_batch) return;
  add(errors, {.field = "batch.global_batch",
               .message = fmt::format("{} is not {}", *global, divisor_text(c)),
               .expected = "sequences per optimizer step over all ranks"});
}

void check_tokens(const Case& c, Errors& errors) {
  const Batch& batch = c.resolved.batch;
  const int64_t tokens = saturating_multiply(batch.micro_batch, batch.sequence);
  if (tokens <= kMaxTokensPerForward) return;
  add(errors, {.field = "batch.micro_batch",
               .message = fmt::format("micro_batch {} x sequence {} = {} tokens in one forward",
                                      batch.micro_batch, batch.sequence, tokens),
               .expected = fmt::format("at most {}", kMaxTokensPerForward)});
}

void check_sequence(const Case& c, Errors& errors) {
  const int64_t limit = c.architecture.max_position;
  if (c.architecture.position != PositionKind::kLearned || limit == 0 || c.resolved.batch.sequence <= limit)
    return;
  add(errors, {.field = "batch.sequence",
               .message = fmt::format("{} is longer than the {} learned positions of {}",
                                      c.resolved.batch.sequence, limit, c.architecture.name),
               .expected = fmt::format("at most {}", limit)});
}

}  // namespace

void check_mesh(const Case& c, Errors& errors) {
  check_framework(c, errors);
  check_only_natives(c, errors);
  check_degrees(c, errors);
  check_product(c, errors);
  check_nodes(c, errors);
}

void check_engine(const Case& c, Errors& errors) {
  check_engine_has_ranks(c, errors);
  if (c.resolved.engine != DataParallelEngine::kFsdp2) return;
  check_replicate(c, errors);
  check_units(c, errors);
}

void check_batch(const Case& c, Errors& errors) {
  check_global_batch(c, errors);
  check_tokens(c, errors);
  check_sequence(c, errors);
}

}  // namespace plimsoll
