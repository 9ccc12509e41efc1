// Checks of framework torchtitan (strategy/case.h): what frameworks/torchtitan has no recipe for is refused
// by name.
#include <fmt/format.h>

#include "strategy/case.h"
#include "strategy/names.h"

namespace plimsoll {
namespace {

void refuse(Errors& errors, std::string field, std::string message, std::string expected) {
  add(errors, {.field = std::move(field), .message = std::move(message), .expected = std::move(expected)});
}

void check_model(const Case& c, Errors& errors) {
  const std::string& family = c.architecture.family;
  if (family != "llama" && family != "qwen3")
    return refuse(errors, "model", fmt::format("framework torchtitan has no family {} yet", family),
                  "llama or qwen3");
  if (c.architecture.is_tied)
    refuse(errors, "model",
           fmt::format("{} ties its head to the embedding, which is not supported with torchtitan yet",
                       c.architecture.name),
           "a model with a head of its own");
  if (family == "qwen3" && c.resolved.torchtitan.release == TorchtitanRelease::k010)
    refuse(errors, "torchtitan.release", "0.1.0 has no Qwen 3", "0.2.2");
}

void check_parallelism(const Case& c, Errors& errors) {
  const DataParallelEngine engine = c.resolved.engine;
  if (engine != DataParallelEngine::kFsdp2)
    refuse(errors, "parallel.engine",
           fmt::format("{} with framework torchtitan is not supported yet", name_of(engine)),
           "fsdp2, on two GPUs or more");
  if (c.job.parallel.tensor > 1)
    refuse(errors, "parallel.tensor", "tensor parallelism with framework torchtitan is not supported yet",
           "1");
}

// training.dtype
void check_precision(const Case& c, Errors& errors) {
  const Precision precision = c.resolved.precision;
  if (precision == Precision::kFloat32 || precision == Precision::kBFloat16) return;
  refuse(errors, "precision", fmt::format("{} is not how torchtitan trains", name_of(precision)),
         "fp32 or bf16: the shards' dtype");
}

void check_recipes(const Case& c, Errors& errors) {
  const Optimizer& optimizer = c.resolved.optimizer;
  if (optimizer.kind != OptimizerKind::kAdamW)
    refuse(errors, "optimizer.name",
           fmt::format("{} with framework torchtitan is not supported yet", name_of(optimizer)),
           "adamw, adamw-fused or adamw-loop");
  if (c.resolved.loss.kind != LossKind::kFullLogits)
    refuse(errors, "loss.path",
           fmt::format("{} with framework torchtitan is not supported yet", name_of(c.resolved.loss.kind)),
           "full");
  const RecomputeKind recompute = c.resolved.recompute.kind;
  if (c.resolved.torchtitan.compiles_blocks && recompute != RecomputeKind::kSelective &&
      recompute != RecomputeKind::kFull)
    refuse(errors, "torchtitan.compile_blocks",
           fmt::format(
               "what a compiler keeps of blocks without a checkpoint is not known here (recompute.mode {})",
               name_of(c.resolved.recompute)),
           "recompute.mode selective or full");
  if (c.resolved.torchtitan.float8 != Float8Recipe::kNone && !c.resolved.torchtitan.compiles_blocks)
    refuse(errors, "torchtitan.float8",
           "float8 linears that aren't compiled keep copies that are not modelled",
           "torchtitan.compile_blocks = true");
  if (c.resolved.recompute.is_reentrant)
    refuse(errors, "recompute.mode", "torchtitan's checkpoints are non-reentrant",
           "full, selective or every-N");
  if (c.resolved.attention != AttentionImplementation::kSdpa)
    refuse(errors, "attention.implementation",
           fmt::format("{} with framework torchtitan is not supported yet", name_of(c.resolved.attention)),
           "sdpa");
}

}  // namespace

void check_torchtitan(const Case& c, Errors& errors) {
  if (c.job.framework != Framework::kTorchtitan) return;
  check_model(c, errors);
  check_parallelism(c, errors);
  check_precision(c, errors);
  check_recipes(c, errors);
}

}  // namespace plimsoll
