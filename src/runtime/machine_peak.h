// What this machine computes at most, measured: the best of some square matrix products with the dtype and
// the threads that kernels use. Ranks of one machine measure at the same time, since they share it.
//
//   const double peak = measure_peak_flops(at::kBFloat16);   // a second; about a tenth of one to measure
//
// Its tensors are gone when it returns.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace plimsoll::runtime {

inline constexpr int64_t kPeakProductSize = 1024;

// Flops a second.
double measure_peak_flops(at::ScalarType dtype);

}  // namespace plimsoll::runtime
