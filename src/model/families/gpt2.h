// GPT-2 and GPT-J: pre-norm blocks under the names transformer.h.N.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> gpt2_families();

}  // namespace plimsoll
