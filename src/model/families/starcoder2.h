// StarCoder 2: LayerNorms and a plain MLP with biases.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> starcoder2_families();

}  // namespace plimsoll
