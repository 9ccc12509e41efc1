// How PyTorch rounds sizes. Bytes.
// Source: c10/cuda/CUDACachingAllocator.cpp (round_size, roundup_power2_next_division, get_allocation_size).
#pragma once

#include <bit>
#include <cstdint>

#include "base/block.h"

namespace plimsoll {

inline constexpr auto kMinBlock = static_cast<uint64_t>(kAllocationBlock.value);
inline constexpr uint64_t kSmallLimit = uint64_t{1} << 20;  // largest request of the small pool
inline constexpr uint64_t kSmallSegment = uint64_t{2} << 20;
inline constexpr uint64_t kLargeSegment = uint64_t{20} << 20;  // default; the setting large_segment_size_mb
inline constexpr uint64_t kLargeOwnSegment = uint64_t{10}
                                             << 20;  // from here on a request gets a segment of its own
inline constexpr uint64_t kLargeGranularity = uint64_t{2} << 20;
inline constexpr uint64_t kLargestRequest = uint64_t{1} << 60;  // "more than 1EB memory"
// Stands for "no limit" where a device's size is wanted.
inline constexpr Bytes kUnlimitedDevice{kMaxQuantity};

// REQUIRES 0 < size <= kLargestRequest, here and below.
constexpr uint64_t round_to_block(uint64_t size) { return (size + kMinBlock - 1) & ~(kMinBlock - 1); }

// The next of `divisions` equal steps between two powers of two: 1200 with 4 divisions gives 1280.
// REQUIRES divisions is a power of two, at least 2.
constexpr uint64_t round_to_division(uint64_t size, uint64_t divisions) {
  if (std::has_single_bit(size)) return size;
  const uint64_t floor = std::bit_floor(size);
  const uint64_t step = floor >> (std::bit_width(divisions) - 1);
  if (step == 0) return floor << 1;
  return (size + step - 1) & ~(step - 1);
}

// What the device is asked for when no cached block serves a request of `rounded` bytes.
constexpr uint64_t segment_size_for(uint64_t rounded, uint64_t large_segment) {
  if (rounded <= kSmallLimit) return kSmallSegment;
  if (rounded < kLargeOwnSegment) return large_segment;
  return (rounded + kLargeGranularity - 1) / kLargeGranularity * kLargeGranularity;
}

}  // namespace plimsoll
