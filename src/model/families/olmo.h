// OLMo 2 and 3: norms on the branches' outputs only, and on the whole query and key projections.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> olmo_families();

}  // namespace plimsoll
