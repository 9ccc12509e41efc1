#include "frameworks/pytorch/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace plimsoll::pytorch {
namespace {

constexpr MlpNames kFusedMlp{.activation = "activation_fn"};
constexpr BranchNorms kGemmaNorms{.after_attention = "post_attention_layernorm",
                                  .before_mlp = "pre_feedforward_layernorm",
                                  .after_mlp = "post_feedforward_layernorm"};
constexpr BranchNorms kOlmoNorms{.before_attention = "",
                                 .after_attention = "post_attention_layernorm",
                                 .before_mlp = "",
                                 .after_mlp = "post_feedforward_layernorm"};
constexpr BranchNorms kGlm4Norms{.after_attention = "post_self_attn_layernorm",
                                 .after_mlp = "post_mlp_layernorm"};

constexpr std::array kFamilies = {
    Family{.name = "bert", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kBert},
    Family{.name = "bloom", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kBloom},
    Family{.name = "cohere",
           .norm = NormVariant::kCohere,
           .rotary = RotaryVariant::kInterleavedFloat,
           .layer = LayerVariant::kParallel,
           .head_norm_order = HeadNormOrder::kBeforeTranspose,
           .logits_scaling = LogitsScaling::kMultiplied},
    Family{.name = "deepseek_v2", .rotary = RotaryVariant::kComplex, .mixture = MixtureVariant::kDeepseekV2},
    Family{.name = "deepseek_v3", .mixture = MixtureVariant::kDeepseekV3},
    Family{.name = "falcon", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kFalcon},
    Family{.name = "gemma", .norm = NormVariant::kRmsPlusOne, .has_scaled_embedding = true},
    Family{.name = "gemma2",
           .norm = NormVariant::kRmsPlusOne,
           .masks = WindowMasks::kBoth,
           .has_scaled_embedding = true,
           .norms = kGemmaNorms},
    Family{.name = "gemma3_text",
           .norm = NormVariant::kRmsPlusOne,
           .masks = WindowMasks::kBoth,
           .head_norm_order = HeadNormOrder::kAfterTranspose,
           .has_rotary_by_layer_type = true,
           .has_scaled_embedding = true,
           .norms = kGemmaNorms},
    Family{
        .name = "glm4", .rotary = RotaryVariant::kInterleavedPartial, .norms = kGlm4Norms, .mlp = kFusedMlp},
    Family{.name = "glm4_moe",
           .rotary = RotaryVariant::kPartialTogether,
           .head_norm_order = HeadNormOrder::kBeforeTranspose,
           .mixture = MixtureVariant::kDeepseekV3},
    Family{.name = "gpt2", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kGpt2},
    Family{.name = "gpt_neox", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kGptNeox},
    Family{.name = "gptj", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kGptJ},
    Family{.name = "gpt_oss",
           .norm = NormVariant::kRmsWeightFirst,
           .rotary = RotaryVariant::kHalfTable,
           .masks = WindowMasks::kBoth,
           .masks_know_positions = false,
           .mixture = MixtureVariant::kGptOss},
    Family{.name = "granite", .has_multipliers = true, .logits_scaling = LogitsScaling::kDivided},
    Family{.name = "llama"},
    Family{.name = "llama4_text",
           .norm = NormVariant::kRmsWeightLast,
           .rotary = RotaryVariant::kComplex,
           .layer = LayerVariant::kLlama4,
           .masks = WindowMasks::kChunked,
           .mlp = {.activation = "activation_fn"},
           .mixture = MixtureVariant::kLlama4},
    Family{
        .name = "minimax_m2", .rotary = RotaryVariant::kPartialTogether, .mixture = MixtureVariant::kMinimax},
    Family{.name = "mistral", .masks = WindowMasks::kOne},
    Family{.name = "mixtral", .masks = WindowMasks::kOne, .mixture = MixtureVariant::kMixtral},
    Family{.name = "modernbert", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kModernBert},
    Family{.name = "olmo2",
           .norm = NormVariant::kRmsWeightFirst,
           .rotary = RotaryVariant::kHalvesFloat,
           .norms = kOlmoNorms},
    Family{.name = "olmo3",
           .norm = NormVariant::kRmsWeightFirst,
           .rotary = RotaryVariant::kHalvesFloat,
           .masks = WindowMasks::kBoth,
           .has_rotary_by_layer_type = true,
           .norms = kOlmoNorms},
    Family{.name = "opt", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kOpt},
    Family{.name = "phi",
           .norm = NormVariant::kLayerNorm,
           .rotary = RotaryVariant::kPartialByCaller,
           .layer = LayerVariant::kParallelResidualLast,
           .head_norm_order = HeadNormOrder::kAfterTranspose,
           .query_norm = "q_layernorm",
           .key_norm = "k_layernorm",
           .attention_output = "dense",
           .final_norm = "final_layernorm",
           .dropouts = {.attention = "resid_dropout", .mlp = "resid_dropout", .embedding = "embed_dropout"},
           .mlp = {.up = "fc1", .down = "fc2", .activation = "activation_fn"}},
    Family{.name = "phi3",
           .rotary = RotaryVariant::kPartial,
           .masks = WindowMasks::kOne,
           .dropouts = {.attention = "resid_attn_dropout", .mlp = "resid_mlp_dropout"},
           .mlp = kFusedMlp},
    Family{.name = "qwen2", .masks = WindowMasks::kSlidingIfUsed},
    Family{.name = "qwen2_moe", .masks = WindowMasks::kBothAlways, .mixture = MixtureVariant::kQwen},
    Family{.name = "qwen3", .masks = WindowMasks::kSlidingIfUsed},
    Family{.name = "qwen3_moe", .masks = WindowMasks::kOne, .mixture = MixtureVariant::kQwen},
    Family{.name = "roberta", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kBert},
    Family{.name = "stablelm",
           .norm = NormVariant::kLayerNorm,
           .rotary = RotaryVariant::kPartialByCaller,
           .layer = LayerVariant::kStableLm,
           .head_norm_order = HeadNormOrder::kAfterTranspose,
           .cuts_heads_last = true,
           .has_head_norm_list = true,
           .query_norm = "q_layernorm",
           .key_norm = "k_layernorm",
           .dropouts = {.mlp = "dropout"}},
    Family{.name = "starcoder2",
           .norm = NormVariant::kLayerNorm,
           .masks = WindowMasks::kOne,
           .dropouts = {.are_functions = true},
           .mlp = {.up = "c_fc", .down = "c_proj", .activation = "act"}},
};

}  // namespace

Result<Family> find_family(std::string_view model_type) {
  for (const Family& family : kFamilies)
    if (family.name == model_type) return family;
  return fail({.message = fmt::format(
                   "model family \"{}\" can be counted, but its training can't be estimated yet", model_type),
               .expected = fmt::format("one of {}", fmt::join(supported_families(), ", "))});
}

std::vector<std::string_view> supported_families() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

}  // namespace plimsoll::pytorch
