// Quantities with their unit in the type. Plain value types; arithmetic that overflows saturates at
// kMaxQuantity, which is far beyond any machine, so a hostile size stays a huge size and never wraps into a
// small one.
//
//   Bytes weights = Bytes{2} * elements;    // checked product
//   fmt::print("{}", to_gib_text(weights));  // "14.96 GiB"
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr int64_t kMaxQuantity = std::numeric_limits<int64_t>::max() / 4;

// a * b, saturated to +-kMaxQuantity.
constexpr int64_t saturating_multiply(int64_t a, int64_t b) {
  const __int128 product = static_cast<__int128>(a) * b;
  if (product > kMaxQuantity) return kMaxQuantity;
  if (product < -kMaxQuantity) return -kMaxQuantity;
  return static_cast<int64_t>(product);
}

constexpr int64_t saturating_add(int64_t a, int64_t b) {
  const __int128 sum = static_cast<__int128>(a) + b;
  if (sum > kMaxQuantity) return kMaxQuantity;
  if (sum < -kMaxQuantity) return -kMaxQuantity;
  return static_cast<int64_t>(sum);
}

template <typename Tag>
struct Quantity {
  int64_t value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(int64_t v) : value(v) {}

  constexpr bool is_saturated() const { return value >= kMaxQuantity || value <= -kMaxQuantity; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{saturating_add(a.value, b.value)};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{saturating_add(a.value, -b.value)};
  }
  friend constexpr Quantity operator*(Quantity a, int64_t n) {
    return Quantity{saturating_multiply(a.value, n)};
  }
  friend constexpr Quantity operator*(int64_t n, Quantity a) { return a * n; }
  friend constexpr Quantity operator/(Quantity a, int64_t n) { return Quantity{a.value / n}; }
  constexpr Quantity& operator+=(Quantity b) { return *this = *this + b; }
  constexpr Quantity& operator-=(Quantity b) { return *this = *this - b; }
};

using Bytes = Quantity<struct BytesTag>;
using Elements = Quantity<struct ElementsTag>;
using Flops = Quantity<struct FlopsTag>;
using Nanoseconds = Quantity<struct NanosecondsTag>;

inline constexpr Bytes kKiB{int64_t{1} << 10};
inline constexpr Bytes kMiB{int64_t{1} << 20};
inline constexpr Bytes kGiB{int64_t{1} << 30};

// ceil(a / b); REQUIRES b > 0, a >= 0.
constexpr int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }
constexpr int64_t round_up(int64_t a, int64_t multiple) {
  return saturating_multiply(divide_up(a, multiple), multiple);
}
constexpr Bytes round_up(Bytes a, Bytes multiple) { return Bytes{round_up(a.value, multiple.value)}; }

// "14.96 GiB"; always GiB, two decimals (three below 0.1 GiB).
std::string to_gib_text(Bytes bytes);
// "512 B", "1.50 KiB", "14.96 GiB": the largest unit that keeps the number at least 1.
std::string to_text(Bytes bytes);
// "40GiB", "40 GB", "40g", "1.5 MiB", "512 B": a number and its unit, in capital letters or small; nothing
// when it is none or beyond kMaxQuantity. G, Gi and GiB are 2^30 bytes, GB is 10^9.
std::optional<Bytes> parse_bytes(std::string_view text);
// 8030261248 -> "8,030,261,248".
std::string with_thousands(int64_t number);

}  // namespace plimsoll
