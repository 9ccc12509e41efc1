// Quantities per second, with their unit in the type, and how long a quantity takes at such a rate.
//
//   BytesPerSecond pcie = BytesPerSecond{25'000'000'000};  // 25 GB/s: rates are decimal, memory is binary
//   Nanoseconds copy = time_at(kGiB, pcie);                // 42.9 ms
#pragma once

#include "base/units.h"

namespace plimsoll {

using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;  // a multiply-add counts as two

inline constexpr BytesPerSecond kGigabytePerSecond{1'000'000'000};
inline constexpr FlopsPerSecond kTeraflopPerSecond{1'000'000'000'000};

// ceil(amount / per_second) in nanoseconds, saturated; REQUIRES per_second > 0, amount >= 0.
constexpr int64_t nanoseconds_at(int64_t amount, int64_t per_second) {
  const __int128 scaled = static_cast<__int128>(amount) * 1'000'000'000;
  const __int128 time = (scaled + per_second - 1) / per_second;
  return time > kMaxQuantity ? kMaxQuantity : static_cast<int64_t>(time);
}
constexpr Nanoseconds time_at(Bytes amount, BytesPerSecond rate) {
  return Nanoseconds{nanoseconds_at(amount.value, rate.value)};
}
constexpr Nanoseconds time_at(Flops amount, FlopsPerSecond rate) {
  return Nanoseconds{nanoseconds_at(amount.value, rate.value)};
}

}  // namespace plimsoll
