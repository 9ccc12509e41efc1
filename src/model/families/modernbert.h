// ModernBERT (ModernBertForMaskedLM).
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> modernbert_families();

}  // namespace plimsoll
