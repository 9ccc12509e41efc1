// OPT: learned positions, biases, optionally narrower embeddings (350m).
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> opt_families();

}  // namespace plimsoll
