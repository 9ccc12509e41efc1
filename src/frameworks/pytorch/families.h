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
};
enum class BodyVariant { kDecoder, kGpt2, kGptNeox, kOpt, kBloom, kFalcon, kPhi, kBert, kCohere };

struct Family {
  std::string_view name;  // model_type
  NormVariant norm = NormVariant::kRms;
  RotaryVariant rotary = RotaryVariant::kHalves;
  BodyVariant body = BodyVariant::kDecoder;
  bool has_mask_before_positions = false;
};

// The row of a model_type, or an error that lists the supported ones.
Result<Family> find_family(std::string_view model_type);
std::vector<std::string_view> supported_families();

}  // namespace plimsoll::pytorch
