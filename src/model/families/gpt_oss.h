// gpt-oss: mixture of experts with biases everywhere, attention sinks and alternating windows.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> gpt_oss_families();

}  // namespace plimsoll
