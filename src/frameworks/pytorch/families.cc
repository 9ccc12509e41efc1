#include "frameworks/pytorch/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace plimsoll::pytorch {
namespace {

constexpr std::array kFamilies = {
    Family{.name = "bert", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kBert},
    Family{.name = "bloom", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kBloom},
    Family{.name = "deepseek_v2", .rotary = RotaryVariant::kComplex, .mixture = MixtureVariant::kDeepseekV2},
    Family{.name = "deepseek_v3", .mixture = MixtureVariant::kDeepseekV3},
    Family{.name = "falcon", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kFalcon},
    Family{.name = "gpt2", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kGpt2},
    Family{.name = "gpt_neox", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kGptNeox},
    Family{.name = "gptj", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kGptJ},
    Family{.name = "llama"},
    Family{.name = "mistral"},
    Family{.name = "mixtral", .mixture = MixtureVariant::kMixtral},
    Family{.name = "opt", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kOpt},
    Family{.name = "qwen2"},
    Family{.name = "qwen2_moe", .mixture = MixtureVariant::kQwen},
    Family{.name = "qwen3"},
    Family{.name = "qwen3_moe", .mixture = MixtureVariant::kQwen},
    Family{.name = "roberta", .norm = NormVariant::kLayerNorm, .body = BodyVariant::kBert},
};

}  // namespace

Result<Family> find_family(std::string_view model_type) {
  for (const Family& family : kFamilies)
    if (family.name == model_type) return family;
  return fail({.message = fmt::format("model family \"{}\" has no recipe for framework pytorch", model_type),
               .expected = fmt::format("one of {}", fmt::join(supported_families(), ", "))});
}

std::vector<std::string_view> supported_families() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

}  // namespace plimsoll::pytorch
