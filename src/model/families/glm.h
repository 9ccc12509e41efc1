// GLM-4 (norms on both sides of the branches) and GLM-4-MoE (shared and routed experts).
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> glm_families();

}  // namespace plimsoll
