#include "runtime/machine_peak.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>

namespace plimsoll::runtime {

double measure_peak_flops(at::ScalarType dtype) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t n = kPeakProductSize;
  constexpr int kLeast = 3;  // the first makes the product's code
  constexpr auto kTime = std::chrono::milliseconds(100);
  const at::Tensor a = at::ones({n, n}, at::TensorOptions(dtype));
  at::Tensor product = at::empty_like(a);
  const Clock::time_point start = Clock::now();
  double best = 0;
  for (int i = 0; i < kLeast || Clock::now() - start < kTime; ++i) {
    const Clock::time_point begin = Clock::now();
    at::mm_out(product, a, a);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * n * n * n / seconds);
  }
  return best;
}

}  // namespace plimsoll::runtime
