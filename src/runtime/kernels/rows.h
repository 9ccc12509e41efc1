// Elements as numbers to compute with and back, for the kernels that are our own: fp32, and fp64 as it is.
// bf16 rounds to nearest, ties to even, as ATen's.
#pragma once

#include <ATen/core/Tensor.h>

#include <bit>
#include <cstdint>

namespace plimsoll::runtime {

struct Bf16 {
  uint16_t bits;
};

inline double load(double x) { return x; }
inline float load(float x) { return x; }
inline float load(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16U); }

inline void store(double& to, double x) { to = x; }
inline void store(float& to, float x) { to = x; }
inline void store(Bf16& to, float x) {  // a NaN stays one: its bits don't carry over
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  to.bits = static_cast<uint16_t>(x == x ? rounded : 0x7FC0U);
}

// REQUIRES a contiguous fp32 tensor.
inline float* floats_of(const at::Tensor& t) { return static_cast<float*>(t.mutable_data_ptr()); }

// Loops over contiguous elements are compiled for the widest vectors of the machine they run on.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define PLIMSOLL_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PLIMSOLL_WIDE
#endif

}  // namespace plimsoll::runtime
