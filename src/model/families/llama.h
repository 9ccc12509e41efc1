// Llama and the families that differ from it by a bias, a window or a norm on the heads: granite, llama,
// mistral, qwen2, qwen3.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> llama_families();

}  // namespace plimsoll
