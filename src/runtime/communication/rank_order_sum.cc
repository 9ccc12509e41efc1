#include "runtime/communication/rank_order_sum.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "runtime/kernels/rows.h"

namespace plimsoll::runtime {
namespace {

constexpr int64_t kBlock = 1024;  // elements: the running sum stays in the first-level cache

// A block is read whole before it is written, so `out` may be among the terms.
template <typename T>
PLIMSOLL_WIDE void sum(T* out, std::span<const void* const> terms, int64_t elements) {
  using Number = decltype(load(T{}));
  std::array<Number, kBlock>
      total;  // NOLINT(cppcoreguidelines-pro-type-member-init): the first term fills it
  for (int64_t first = 0; first < elements; first += kBlock) {
    const int64_t n = std::min(kBlock, elements - first);
    const T* const start = static_cast<const T*>(terms[0]) + first;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) total[i] = load(start[i]);
    for (const void* term : terms.subspan(1)) {
      const T* const x = static_cast<const T*>(term) + first;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) total[i] += load(x[i]);
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(out[first + i], total[i]);
  }
}

}  // namespace

void sum_in_rank_order(c10::ScalarType dtype, void* out, std::span<const void* const> terms,
                       int64_t elements) {
  assert(!terms.empty());
  assert(dtype == c10::kDouble || dtype == c10::kFloat || dtype == c10::kBFloat16);
  if (dtype == c10::kDouble)
    sum(static_cast<double*>(out), terms, elements);
  else if (dtype == c10::kFloat)
    sum(static_cast<float*>(out), terms, elements);
  else
    sum(static_cast<Bf16*>(out), terms, elements);
}

}  // namespace plimsoll::runtime
