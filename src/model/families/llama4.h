// Llama 4's language part: mixtures of experts in every layer or every other, layers without positions.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> llama4_families();

}  // namespace plimsoll
