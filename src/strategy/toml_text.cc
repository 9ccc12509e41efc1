#include "strategy/toml_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

std::string quoted_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += fmt::format("\\{}", c);
    else if (code < 0x20 || code == 0x7f)
      quoted += fmt::format("\\u{:04X}", code);
    else
      quoted += c;
  }
  return quoted + '"';
}

std::string toml_key(std::string_view key) {
  const auto is_bare = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !key.empty() && std::ranges::all_of(key, is_bare) ? std::string(key) : quoted_toml(key);
}

std::string toml_number(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace plimsoll
