// How each model family's modelling code in Transformers differs from the common form: named variants, one
// row a family. Source: transformers 5.24, src/transformers/models/<family>/modeling_<family>.py.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::pytorch {

enum class NormVariant {
  kLayerNorm,       // nn.LayerNorm
  kRms,             // LlamaRMSNorm: upcast, weight * x.to(input dtype)
  kRmsWeightFirst,  // Olmo2RMSNorm: (weight * x).to(input dtype)
  kRmsPlusOne,      // GemmaRMSNorm: x.float() normalised * (1 + weight.float()), then type_as
  kRmsWeightLast,   // Llama4TextRMSNorm: x.float() normalised, type_as, * weight
  kCohere           // CohereLayerNorm: mean and variance by hand, weight in fp32
};
// How apply_rotary_pos_emb turns queries and keys.
enum class RotaryVariant {
  kNone,
  kHalves,              // rotate_half by cat((-x2, x1))
  kHalvesFloat,         // Olmo2: cos and sin stay fp32, the result is cast back
  kPartial,             // Phi3: always cut at rotary_dim and joined again, inside the function
  kPartialTogether,     // Glm4Moe: the same, but both are turned before they are joined
  kPartialByCaller,     // Phi: the attention cuts, and holds the parts to its end
  kInterleavedPartial,  // Glm4: every second element; cos and sin are interleaved here, then cut as kPartial
  kInterleavedFloat,    // Cohere: every second element, in fp32, the result is cast back
  kHalfTable,           // GptOss: cos and sin are half as wide, the halves are multiplied with them
  kComplex,             // pairs of neighbours as complex numbers (deepseek_v2, llama4)
};
enum class BodyVariant { kDecoder, kGpt2, kGptNeox, kOpt, kBloom, kFalcon, kGptJ, kBert, kModernBert };
// In which order a decoder layer norms and adds.
enum class LayerVariant {
  kSequential,            // residual + attention(norm(x)), then residual + mlp(norm(x)), see BranchNorms
  kLlama4,                // the same, with other locals
  kStableLm,              // the same or in parallel; every intermediate stays in scope
  kParallel,              // Cohere: residual + attention(norm(x)) + mlp(norm(x))
  kParallelResidualLast,  // Phi: attention(norm(x)) + mlp(norm(x)) + residual
};
// Which masks the model's forward makes.
enum class WindowMasks {
  kNone,           // one causal mask; windows are not looked at
  kOne,            // one mask for all layers, with the window if there is one
  kBoth,           // a causal and a sliding one, each layer takes its own
  kBothAlways,     // Qwen2Moe: the sliding one of a window of 0 where there is none
  kChunked,        // Llama4: a causal and a chunked one, those that layers take
  kSlidingIfUsed,  // Qwen2: the sliding one only when a layer has a window
};
// When queries and keys are normed per head.
enum class HeadNormOrder {
  kWithProjection,   // each right after its projection
  kBeforeTranspose,  // after all projections, on [b, s, heads, d]
  kAfterTranspose,   // after all projections, on [b, heads, s, d]
};
// Names of the norms around the branches of kSequential; empty: none there.
struct BranchNorms {
  std::string_view before_attention = "input_layernorm";
  std::string_view after_attention;
  std::string_view before_mlp = "post_attention_layernorm";
  std::string_view after_mlp;
};
// Dropout of the branches' outputs (Architecture::residual_dropout) and of the embedding's, by name of the
// module; empty: none.
struct Dropouts {
  bool are_functions = false;  // Starcoder2: no modules; the embedding's input stays in scope, the branches'
                               // are at the end of the attention and the MLP
  std::string_view attention, mlp;
  std::string_view embedding;
};
struct MlpNames {
  std::string_view gate_up = "gate_up_proj";  // fused
  std::string_view up = "up_proj", down = "down_proj";
  std::string_view activation = "act_fn";
};
enum class LogitsScaling { kNone, kMultiplied, kDivided };

// Mixtures of experts: the block around them and its router.
enum class MixtureVariant {
  kMixtral,     // softmax over the experts in fp32, weights stay fp32
  kQwen,        // weights back in the model's dtype; a gated shared expert in qwen2_moe
  kDeepseekV2,  // router in fp32, softmax; shared experts
  kDeepseekV3,  // router in fp32, sigmoid, chosen with a correction; shared experts
  kMinimax,     // sigmoid, chosen with a correction
  kGptOss,      // softmax over the chosen ones, biases, a clamped gate of its own
  kLlama4       // every expert is given every token, the unchosen ones weighted with 0
};

struct Family {
  std::string_view name;  // model_type
  NormVariant norm = NormVariant::kRms;
  RotaryVariant rotary = RotaryVariant::kHalves;
  BodyVariant body = BodyVariant::kDecoder;
  LayerVariant layer = LayerVariant::kSequential;
  WindowMasks masks = WindowMasks::kNone;
  bool masks_know_positions = true;  // whether the masks' functions are given the positions
  HeadNormOrder head_norm_order = HeadNormOrder::kWithProjection;
  bool cuts_heads_last = false;           // StableLM: heads are cut after all projections
  bool has_head_norm_list = false;        // StableLM: a LayerNorm of its own for every head
  bool has_rotary_by_layer_type = false;  // Gemma3, Olmo3: two sets of frequencies
  bool has_scaled_embedding = false;      // Gemma: the embedding multiplies by a buffer
  bool has_multipliers = false;           // Granite: embedding and branches are multiplied by numbers
  LogitsScaling logits_scaling = LogitsScaling::kNone;
  std::string_view query_norm = "q_norm", key_norm = "k_norm";
  std::string_view attention_output = "o_proj";
  std::string_view final_norm = "norm";
  BranchNorms norms{};
  Dropouts dropouts{};
  MlpNames mlp{};
  MixtureVariant mixture = MixtureVariant::kMixtral;  // where the model has experts
};

// The row of a model_type, or an error that lists the supported ones.
Result<Family> find_family(std::string_view model_type);
std::vector<std::string_view> supported_families();

}  // namespace plimsoll::pytorch
