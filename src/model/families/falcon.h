// Falcon: fused projections with few key and value heads, parallel residual with one norm or two.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> falcon_families();

}  // namespace plimsoll
