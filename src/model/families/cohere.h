// Command R: parallel residual with one norm without bias.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> cohere_families();

}  // namespace plimsoll
