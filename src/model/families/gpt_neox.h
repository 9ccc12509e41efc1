// GPT-NeoX and Pythia: fused projections, parallel residual with two norms.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> gpt_neox_families();

}  // namespace plimsoll
