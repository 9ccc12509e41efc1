#include "trace/utf8.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace plimsoll {
namespace {

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
    const size_t length = utf8_length(text, at);
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
