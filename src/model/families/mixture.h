// Mixtures of experts on Llama-like attention: minimax_m2, mixtral, qwen2_moe, qwen3_moe.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> mixture_families();

}  // namespace plimsoll
