// Gemma, Gemma 2 and the text part of Gemma 3: scaled embeddings, norms that multiply by 1 + weight, and from
// Gemma 2 on norms on the branches' outputs too, alternating windows and soft caps.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> gemma_families();

}  // namespace plimsoll
