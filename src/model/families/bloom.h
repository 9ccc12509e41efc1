// BLOOM: ALiBi positions, a norm on the embeddings, fused projections.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> bloom_families();

}  // namespace plimsoll
