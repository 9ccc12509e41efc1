// Checks of framework native (strategy/case.h): what frameworks/native and the runtime can't do is refused by
// name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "strategy/case.h"
#include "strategy/names.h"

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 5> kFamilies = {"gpt2", "llama", "mistral", "qwen2", "qwen3"};
constexpr std::array<OptimizerKind, 5> kOptimizers = {OptimizerKind::kAdamW, OptimizerKind::kSgd,
                                                      OptimizerKind::kSgdMomentum, OptimizerKind::kLion,
                                                      OptimizerKind::kAdafactor};
constexpr std::array<std::string_view, 3> kRopeTypes = {"default", "linear", "llama3"};

void refuse(Errors& errors, std::string field, std::string message, std::string expected) {
  add(errors, {.field = std::move(field), .message = std::move(message), .expected = std::move(expected)});
}

void check_family(const Case& c, Errors& errors) {
  if (std::ranges::find(kFamilies, c.architecture.family) == kFamilies.end())
    refuse(errors, "model", fmt::format("framework native has no family {}", c.architecture.family),
           fmt::format("one of {}", fmt::join(kFamilies, ", ")));
}

void check_positions(const Case& c, Errors& errors) {
  const Architecture& a = c.architecture;
  if (a.position != PositionKind::kRotary) return;
  if (std::ranges::find(kRopeTypes, a.rope_type) == kRopeTypes.end())
    return refuse(errors, "model", fmt::format("framework native has no rope_type {}", a.rope_type),
                  fmt::format("one of {}", fmt::join(kRopeTypes, ", ")));
  const RopeScaling& rope = a.rope_scaling;
  const bool is_llama3_whole =
      rope.low_frequency_factor && rope.high_frequency_factor && rope.original_max_position;
  if (a.rope_type != "default" && (!rope.factor || (a.rope_type == "llama3" && !is_llama3_whole)))
    refuse(errors, "model", fmt::format("rope_type {} lacks its numbers in the configuration", a.rope_type),
           a.rope_type == "linear"
               ? "factor"
               : "factor, low_freq_factor, high_freq_factor, original_max_position_embeddings");
}

void check_scores(const Case& c, Errors& errors) {
  const Architecture& a = c.architecture;
  if (!a.numerics.has_scaled_scores || a.numerics.scales_scores_by_layer)
    refuse(errors, "model", "framework native divides attention scores by sqrt(head_dim) only",
           "scale_attn_weights true and scale_attn_by_inverse_layer_idx false");
  for (const Layer& layer : a.layers)
    if (layer.attention.window && *layer.attention.window < c.resolved.batch.sequence)
      return refuse(
          errors, "batch.sequence",
          fmt::format(
              "{} tokens are more than the attention window of {}, which framework native doesn't have",
              c.resolved.batch.sequence, *layer.attention.window),
          fmt::format("at most {}", *layer.attention.window));
}

// What frameworks/native has an op for, of gated and of plain feed-forwards.
bool has_activation(const Mlp& mlp) {
  if (mlp.is_gated) return mlp.activation == Activation::kSilu;
  constexpr std::array kPlain = {Activation::kGelu, Activation::kGeluTanh, Activation::kGeluNew,
                                 Activation::kRelu};
  return std::ranges::find(kPlain, mlp.activation) != kPlain.end();
}

void check_layers(const Case& c, Errors& errors) {
  for (const Layer& layer : c.architecture.layers) {
    const Attention& attention = layer.attention;
    if (layer.mlp && !has_activation(*layer.mlp))
      return refuse(errors, "model",
                    fmt::format("framework native has no activation {} in a {} feed-forward",
                                name_of(layer.mlp->activation), layer.mlp->is_gated ? "gated" : "plain"),
                    layer.mlp->is_gated ? "silu" : "gelu, gelu_new, gelu_pytorch_tanh or relu");
    if (attention.rotary_dim != 0 && attention.rotary_dim != attention.head_dim)
      return refuse(errors, "model",
                    fmt::format("framework native rotates whole heads, not {} of {} dimensions",
                                attention.rotary_dim, attention.head_dim),
                    "partial_rotary_factor 1");
    if (!layer.mlp || !attention.is_causal || attention.chunk || attention.score_softcap)
      return refuse(errors, "model",
                    "framework native has causal attention without soft caps and dense feed-forwards only",
                    "a dense model");
  }
}

// The implementations foreach, fused and loop are PyTorch's.
void check_optimizer(const Optimizer& optimizer, Errors& errors) {
  const bool is_known = std::ranges::find(kOptimizers, optimizer.kind) != kOptimizers.end();
  if (is_known && optimizer == Optimizer{.kind = optimizer.kind}) return;
  std::vector<std::string> names;
  for (OptimizerKind kind : kOptimizers) names.push_back(name_of(Optimizer{.kind = kind}));
  refuse(errors, "optimizer.name",
         fmt::format("{} is not supported with framework native", name_of(optimizer)),
         fmt::format("one of {}", fmt::join(names, ", ")));
}

void check_choices(const Case& c, Errors& errors) {
  const ResolvedJob& r = c.resolved;
  if (r.precision != Precision::kFloat32 && r.precision != Precision::kMixedBFloat16)
    refuse(errors, "precision",
           fmt::format("{} is not supported with framework native", name_of(r.precision)),
           "fp32 or bf16-mixed");
  if (r.engine != DataParallelEngine::kNone && r.engine != DataParallelEngine::kZero)
    refuse(errors, "parallel.engine",
           fmt::format("{} is not an engine of framework native", name_of(r.engine)), "none or zero");
  if (r.mesh.tensor > 1)
    refuse(errors, "parallel.tensor", "tensor parallelism is not supported with framework native", "1");
  check_optimizer(r.optimizer, errors);
  if (r.recompute.is_reentrant)
    refuse(errors, "recompute.mode",
           fmt::format("{}: framework native computes blocks again without reentering", name_of(r.recompute)),
           "none, full, every-N or selective");
  if (r.attention != AttentionImplementation::kSdpa)
    refuse(errors, "attention.implementation",
           fmt::format("{} is not supported with framework native", name_of(r.attention)), "sdpa");
  if (r.loss.kind != LossKind::kFullLogits)
    refuse(errors, "loss.path",
           fmt::format("{} is not supported with framework native", name_of(r.loss.kind)), "full");
}

// What the loop of the runtime does not do.
void check_loop(const Case& c, Errors& errors) {
  const TrainingLoop& loop = c.resolved.loop;
  const auto needs_default = [&](bool is_default, std::string_view field, std::string_view expected) {
    if (!is_default)
      refuse(errors, std::string(field), "not supported with framework native", std::string(expected));
  };
  needs_default(loop.zero_grad == ZeroGrad::kSetToNone, "loop.zero_grad", "set-to-none");
  needs_default(!loop.no_sync, "loop.no_sync", "false");
  needs_default(!loop.has_attention_mask, "loop.attention_mask", "false");
  needs_default(loop.use_cache == UseCache::kFalse, "loop.use_cache", "false");
  needs_default(!loop.hold_outputs, "loop.hold_outputs", "false");
  needs_default(!loop.trainable, "loop.trainable", "all");
  needs_default(!loop.input_require_grads, "loop.input_require_grads", "false");
}

// Every micro-batch is written down, some 10 KB of statements each.
constexpr int64_t kMostMicroBatches = 16384;

void check_run(const Case& c, Errors& errors) {
  if (c.resolved.batch.accumulation > kMostMicroBatches)
    refuse(
        errors, "batch.accumulation",
        fmt::format("a step of {} micro-batches is too long to be written down",
                    c.resolved.batch.accumulation),
        fmt::format("at most {}: a smaller batch.global_batch or larger micro-batches", kMostMicroBatches));
  const RunSettings& run = c.job.run;
  for (const auto& [field, value] :
       {std::pair("train.beta1", run.beta1), std::pair("train.beta2", run.beta2)})
    if (value >= 1)  // the moments would never learn of a gradient, and their bias correction divides by 0
      refuse(errors, field, fmt::format("{} keeps nothing of a gradient", value), "below 1");
}

void check_offload(const Case& c, Errors& errors) {
  const OffloadSettings& offload = c.resolved.offload;
  if (offload.activations == OffloadTarget::kDisk)
    refuse(errors, "offload.activations", "activations are not kept on disk", "none or host");
  if (offload.parameters == OffloadTarget::kDisk)
    refuse(errors, "offload.parameters", "parameters are not kept on disk", "none or host");
  if (offload.optimizer == OffloadTarget::kDisk && offload.directory.empty())
    refuse(errors, "offload.optimizer", "disk needs a place for its file",
           "offload.directory: a folder on a fast local disk");
  if (offload.parameters == OffloadTarget::kNone) return;
  const bool is_stage_3 = c.resolved.engine == DataParallelEngine::kZero && c.resolved.zero.stage == 3;
  if (!is_stage_3)
    refuse(errors, "offload.parameters", "only parameters that are gathered when needed can live elsewhere",
           "parallel.engine = zero and zero.stage = 3");
  if (offload.optimizer == OffloadTarget::kNone)
    refuse(errors, "offload.parameters",
           "parameters on the host are updated there, the optimizer is on the device",
           "offload.optimizer = host or disk");
}

}  // namespace

void check_native(const Case& c, Errors& errors) {
  if (c.job.framework != Framework::kNative) return;
  check_family(c, errors);
  check_positions(c, errors);
  check_scores(c, errors);
  check_layers(c, errors);
  check_choices(c, errors);
  check_loop(c, errors);
  check_run(c, errors);
  check_offload(c, errors);
}

}  // namespace plimsoll
