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
  kCohere           // CohereLayerNorm: mean and variance by hand, weight in fp32
};
enum class RotaryVariant {
  kNone,
  kHalves,       // rotate_half by cat((-x2, x1))
  kPartial,      // only the first rotary_dim of the head, the rest is joined again
  kInterleaved,  // every second element
  kComplex,      // pairs of neighbours as complex numbers (deepseek_v2, llama4)
};
enum class BodyVariant { kDecoder, kGpt2, kGptNeox, kOpt, kBloom, kFalcon, kGptJ, kPhi, kBert, kCohere };

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
  bool has_mask_before_positions = false;
  MixtureVariant mixture = MixtureVariant::kMixtral;  // where the model has experts
};

// The row of a model_type, or an error that lists the supported ones.
Result<Family> find_family(std::string_view model_type);
std::vector<std::string_view> supported_families();

}  // namespace plimsoll::pytorch
