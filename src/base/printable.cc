#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace plimsoll {
namespace {

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// How many bytes of the start are one character that may be shown; 0: none. Of UTF-8 only what tells a
// character's bytes apart is looked at.
size_t shown_bytes(std::string_view text) {
  constexpr uint8_t kDelete = 0x7F, kTwo = 0xC2, kThree = 0xE0, kFour = 0xF0, kEnd = 0xF5;
  constexpr uint8_t kFirstAfterControls = 0xA0;  // U+0080 to U+009F are control characters too
  const uint8_t first = byte_at(text, 0);
  if (first < kDelete) return first >= ' ' || first == '\n' ? 1 : 0;
  if (first < kTwo || first >= kEnd) return 0;
  const size_t length = first < kThree ? 2 : first < kFour ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  return first == kTwo && byte_at(text, 1) < kFirstAfterControls ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t length = shown_bytes(text);
    if (length > 0)
      shown += text.substr(0, length);
    else
      shown += fmt::format("\\x{:02x}", byte_at(text, 0));
    text.remove_prefix(length > 0 ? length : 1);
  }
  return shown;
}

}  // namespace plimsoll
