// DeepSeek-V2 and -V3 (also Kimi K2 and Moonlight): multi-head latent attention, dense first layers, then
// mixtures of experts with shared ones.
#pragma once

#include <vector>

#include "model/family.h"

namespace plimsoll {

std::vector<Family> deepseek_families();

}  // namespace plimsoll
