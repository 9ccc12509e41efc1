// StableLM: Llama with LayerNorms and partly rotated heads.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> stablelm_families();

}  // namespace plimsoll
