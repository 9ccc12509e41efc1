#include "runtime/finite.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/kernels/rows.h"

namespace plimsoll::runtime {
namespace {

// Those have an exponent of ones only (IEEE 754).
PLIMSOLL_WIDE uint32_t any_not_finite(const float* x, size_t n) {
  constexpr uint32_t kExponent = 0x7F800000U;
  uint32_t found = 0;
#pragma omp simd reduction(| : found)
  for (size_t i = 0; i < n; ++i)
    found |= static_cast<uint32_t>((std::bit_cast<uint32_t>(x[i]) & kExponent) == kExponent);
  return found;
}

}  // namespace

bool are_finite(std::span<const float> values) { return any_not_finite(values.data(), values.size()) == 0; }

}  // namespace plimsoll::runtime
