#include "frameworks/pytorch/supported.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "frameworks/pytorch/families.h"
#include "frameworks/pytorch/optimizers/optimizer.h"
#include "strategy/names.h"

namespace plimsoll::pytorch {
namespace {

// Families whose forward Liger replaces so that it takes the head's weight. Source:
// MODEL_TYPE_TO_APPLY_LIGER_FN in liger_kernel/transformers/monkey_patch.py, without granite, whose logits
// are scaled and for which it is off.
constexpr std::array<std::string_view, 15> kLigerFamilies = {
    "gemma",   "gemma2", "gemma3_text", "glm4", "gpt_oss", "llama", "llama4_text", "mistral",
    "mixtral", "olmo2",  "olmo3",       "phi3", "qwen2",   "qwen3", "qwen3_moe"};

Result<void> refuse(std::string field, std::string_view choice, std::string_view why, std::string expected) {
  return fail({.position = {.key = field},
               .message = fmt::format("{} = {} is not supported: {}", field, choice, why),
               .expected = std::move(expected)});
}

Result<void> check_loss(const Architecture& a, const ResolvedJob& job) {
  if (job.loss.kind == LossKind::kFullLogits) return {};
  const std::string_view name = name_of(job.loss.kind);
  // The patched forward reads the head's weight outside the head's call, where a unit of its own is sharded.
  if (job.engine == DataParallelEngine::kFsdp2 && job.fsdp2.split_head)
    return refuse("fsdp2.split_head", "true",
                  fmt::format("loss.path = {} reads the head's weight while that is sharded", name), "false");
  if (job.loss.kind == LossKind::kFusedLinear &&
      std::ranges::find(kLigerFamilies, a.family) == kLigerFamilies.end())
    return refuse("loss.path", name, fmt::format("Liger has no patch for {}", a.family), "full or chunked");
  return {};
}

Result<void> check_attention(const Architecture& a, const ResolvedJob& job) {
  if (job.attention != AttentionImplementation::kFlashAttention2) return {};
  PLIMSOLL_TRY(family, find_family(a.family));
  if (family.body != BodyVariant::kDecoder)
    return refuse("attention.implementation", "flash_attention_2",
                  fmt::format("{} has attention classes of its own", a.family), "eager or sdpa");
  return {};
}

// fully_shard's policy holds for every block: another dtype than that of the computation would go from block
// to block. Of the same dtype only the loss changes.
Result<void> check_output_dtype(const ResolvedJob& job) {
  const auto& output = job.fsdp2.output_dtype;
  if (job.engine != DataParallelEngine::kFsdp2 || !output) return {};
  const DType compute = job.fsdp2.param_dtype.value_or(parameter_dtype(job.precision));
  if (*output == compute && !autocast_dtype(job.precision)) return {};
  return refuse("fsdp2.output_dtype", name_of(*output),
                fmt::format("the outputs of every block would be cast, they are computed in {}",
                            autocast_dtype(job.precision) ? "autocast's dtypes" : name_of(compute)),
                autocast_dtype(job.precision) ? "none" : fmt::format("{} or none", name_of(compute)));
}

Result<void> check_parallelism(const ResolvedJob& job) {
  PLIMSOLL_CHECK(check_output_dtype(job));
  if (job.engine != DataParallelEngine::kDdp) return {};
  if (job.ddp.static_graph)
    return refuse(
        "ddp.static_graph", "true",
        "its first step reduces every gradient at the end, and the buckets are made anew in the third",
        "false, which needs as much but for a copy of the outputs in the first step");
  if (job.ddp.find_unused_parameters && job.recompute.is_reentrant)
    return refuse("ddp.find_unused_parameters", "true",
                  "DDP does not see into reentrant checkpoints and takes their parameters as unused",
                  "false, or recompute.mode = full");
  return {};
}

}  // namespace

Result<void> check_supported(const Architecture& architecture, const ResolvedJob& job) {
  PLIMSOLL_CHECK(find_family(architecture.family));
  PLIMSOLL_CHECK(check_loss(architecture, job));
  PLIMSOLL_CHECK(check_attention(architecture, job));
  PLIMSOLL_CHECK(check_optimizer(job));
  return check_parallelism(job);
}

}  // namespace plimsoll::pytorch
