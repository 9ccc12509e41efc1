// Phi (1, 2): parallel residual, biases everywhere. Phi-3 and Phi-4: Llama with fused projections.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> phi_families();

}  // namespace plimsoll
