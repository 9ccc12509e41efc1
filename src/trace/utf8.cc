#include "trace/utf8.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace plimsoll {
namespace {

// Length of the valid sequence that starts at `at`, 0 if there is none (RFC 3629: no overlong forms, no
// surrogates).
size_t sequence_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool is_overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool is_surrogate = lead == 0xed && byte(1) >= 0xa0;
  const bool is_beyond = lead == 0xf4 && byte(1) >= 0x90;
  return is_overlong || is_surrogate || is_beyond ? 0 : length;
}

void append_escaped(std::string& json, char c) {
  switch (c) {
    case '"':
      json += "\\\"";
      break;
    case '\\':
      json += "\\\\";
      break;
    case '\n':
      json += "\\n";
      break;
    case '\t':
      json += "\\t";
      break;
    default:
      if (static_cast<uint8_t>(c) < 0x20) {
        json += fmt::format("\\u{:04x}", static_cast<int>(c));
      } else {
        json += c;
      }
  }
}

}  // namespace

std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = sequence_length(text, at);
    if (length == 0) {
      valid += "\xef\xbf\xbd";
      ++at;
    } else {
      valid += text.substr(at, length);
      at += length;
    }
  }
  return valid;
}

std::string to_json_string(std::string_view text) {
  std::string json = "\"";
  for (const char c : to_valid_utf8(text)) append_escaped(json, c);
  return json + "\"";
}

}  // namespace plimsoll
