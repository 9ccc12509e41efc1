// Whether numbers are numbers: neither infinite nor NaN.
#pragma once

#include <span>

namespace plimsoll::runtime {

bool are_finite(std::span<const float> values);

}  // namespace plimsoll::runtime
