// Sums whose bits depend on nothing but the values: ranks are added in their order.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

namespace plimsoll::runtime {

// out[i] = terms[0][i] + terms[1][i] + ...; `out` may be one of the terms. fp64 is added in
// fp64, fp32 and bf16 in fp32; bf16 is rounded to nearest even once. REQUIRES one of them, at least one term.
void sum_in_rank_order(c10::ScalarType dtype, void* out, std::span<const void* const> terms,
                       int64_t elements);

}  // namespace plimsoll::runtime
