#include "model/config_value.h"

namespace plimsoll {

std::string shown_text(std::string_view text) {
  constexpr size_t kLongest = 60;
  const bool is_cut = text.size() > kLongest;
  if (is_cut) {
    size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
      --end;  // not within a character
    text = text.substr(0, end);
  }
  std::string shown(text);
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return is_cut ? shown + "..." : shown;
}

}  // namespace plimsoll
