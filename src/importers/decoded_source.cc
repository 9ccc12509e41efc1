#include "importers/utf16.h"

#include <cstdint>

namespace plimsoll {
namespace {

constexpr std::string_view kLittleEndian = "\xff\xfe", kBigEndian = "\xfe\xff";

void append(std::string& text, uint32_t point) {
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xc0 | (point >> 6));
  } else if (point < 0x10000) {
    add(0xe0 | (point >> 12));
    add(0x80 | ((point >> 6) & 0x3f));
  } else {
    add(0xf0 | (point >> 18));
    add(0x80 | ((point >> 12) & 0x3f));
    add(0x80 | ((point >> 6) & 0x3f));
  }
  add(0x80 | (point & 0x3f));
}

bool is_high(uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low(uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

}  // namespace

bool is_utf16(std::string_view bytes) {
  return bytes.starts_with(kLittleEndian) || bytes.starts_with(kBigEndian);
}

std::string utf8_of_utf16(std::string_view bytes) {
  constexpr uint32_t kReplacement = 0xfffd;
  const bool is_big = bytes.starts_with(kBigEndian);
  const auto unit_at = [&](size_t at) {
    const auto first = static_cast<unsigned char>(bytes[at]),
               second = static_cast<unsigned char>(bytes[at + 1]);
    return static_cast<uint32_t>(is_big ? first << 8 | second : second << 8 | first);
  };
  std::string text;
  text.reserve(bytes.size() / 2);
  for (size_t at = 2; at + 1 < bytes.size(); at += 2) {
    const uint32_t unit = unit_at(at);
    const bool is_pair = is_high(unit) && at + 3 < bytes.size() && is_low(unit_at(at + 2));
    if (is_pair) {
      append(text, 0x10000 + ((unit - 0xd800) << 10) + (unit_at(at + 2) - 0xdc00));
      at += 2;
    } else {
      append(text, is_high(unit) || is_low(unit) ? kReplacement : unit);
    }
  }
  return text;
}

}  // namespace plimsoll
