#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
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

namespace {

struct ByteUnit {
  std::string_view name;  // in small letters
  double bytes;
};
// Of one letter: powers of two, as memory is sized (Slurm's --mem, Docker's --memory).
constexpr std::array<ByteUnit, 23> kByteUnits = {{
    {"b", 1},        {"byte", 1},     {"bytes", 1},                                      //
    {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12},    {"pb", 1e15},    //
    {"k", 0x1p10},   {"m", 0x1p20},   {"g", 0x1p30},   {"t", 0x1p40},   {"p", 0x1p50},   //
    {"ki", 0x1p10},  {"mi", 0x1p20},  {"gi", 0x1p30},  {"ti", 0x1p40},  {"pi", 0x1p50},  //
    {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}, {"pib", 0x1p50},
}};

char in_small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto* const unit = std::ranges::find_if(
      kByteUnits, [&](const ByteUnit& u) { return std::ranges::equal(u.name, text, {}, {}, in_small); });
  if (unit == kByteUnits.end()) return std::nullopt;
  const double bytes = std::round(number * unit->bytes);
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
