#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

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

std::optional<Bytes> parse_bytes(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 11> kUnits = {{{"B", 1},
                                                                                  {"KB", 1e3},
                                                                                  {"MB", 1e6},
                                                                                  {"GB", 1e9},
                                                                                  {"TB", 1e12},
                                                                                  {"KiB", 0x1p10},
                                                                                  {"MiB", 0x1p20},
                                                                                  {"GiB", 0x1p30},
                                                                                  {"TiB", 0x1p40},
                                                                                  {"bytes", 1},
                                                                                  {"PiB", 0x1p50}}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto unit = std::ranges::find(kUnits, text, [](const auto& u) { return u.first; });
  if (unit == kUnits.end()) return std::nullopt;
  const double bytes = std::round(number * unit->second);
  if (std::abs(bytes) >= static_cast<double>(kMaxQuantity)) return std::nullopt;
  return Bytes{static_cast<int64_t>(bytes)};
}

std::string with_thousands(int64_t number) {
  std::string text = std::to_string(number);
  const int first_digit = number < 0 ? 1 : 0;
  for (int at = static_cast<int>(text.size()) - 3; at > first_digit; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

}  // namespace plimsoll
