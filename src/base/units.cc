#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace plimsoll {

std::string to_gib_text(Bytes bytes) {
  const double gib = static_cast<double>(bytes.value) / static_cast<double>(kGiB.value);
  const bool small = std::abs(gib) < 0.1 && bytes.value != 0;
  return fmt::format("{:.{}f} GiB", gib, small ? 3 : 2);
}

std::string to_text(Bytes bytes) {
  static constexpr std::array<const char*, 6> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double number = static_cast<double>(bytes.value);
  size_t unit = 0;
  while (std::abs(number) >= 1024 && unit + 1 < kNames.size()) {
    number /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes.value) : fmt::format("{:.2f} {}", number, kNames[unit]);
}

std::string with_thousands(int64_t number) {
  std::string text = std::to_string(number);
  const int first_digit = number < 0 ? 1 : 0;
  for (int at = static_cast<int>(text.size()) - 3; at > first_digit; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

}  // namespace plimsoll
