#include "strategy/toml_scan.h"

#include <algorithm>

namespace plimsoll {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_foreign(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code >= 0x7f || (code < 0x20 && c != '\t' && c != '\n' && c != '\r');
}

size_t end_of_line(std::string_view text, size_t from) {
  return std::min(text.find('\n', from), text.size());
}

// Past the text that begins with the quotation mark at `from`: a single-line one ends at the line's end at
// last.
size_t end_of_line_text(std::string_view text, size_t from) {
  const char quote = text[from];
  for (size_t i = from + 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == quote) return i + 1;
    if (text[i] == '\\' && quote == '"') ++i;
  }
  return end_of_line(text, from);
}

size_t end_of_block_text(std::string_view text, size_t from) {
  const std::string_view quotes = text.substr(from, 3);
  size_t i = from + 3;
  for (; i < text.size() && text.substr(i, 3) != quotes; ++i)
    if (text[i] == '\\' && quotes.front() == '"') ++i;
  while (i < text.size() && text[i] == quotes.front()) ++i;  // up to two belong to the text itself
  return std::min(i, text.size());
}

size_t end_of_text(std::string_view text, size_t from) {
  const std::string_view begin = text.substr(from, 3);
  const bool is_block = begin == "\"\"\"" || begin == "'''";
  return is_block ? end_of_block_text(text, from) : end_of_line_text(text, from);
}

}  // namespace

std::optional<size_t> find_foreign_byte(std::string_view toml) {
  size_t i = toml.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (i < toml.size()) {
    if (toml[i] == '#')
      i = end_of_line(toml, i);
    else if (toml[i] == '"' || toml[i] == '\'')
      i = end_of_text(toml, i);
    else if (is_foreign(toml[i]))
      return i;
    else
      ++i;
  }
  return std::nullopt;
}

std::optional<size_t> find_too_deep(std::string_view toml) {
  int brackets = 0, dots = 0;
  for (size_t i = 0; i < toml.size();) {
    const char c = toml[i];
    if (c == '#') {
      i = end_of_line(toml, i);
      continue;
    }
    if (c == '"' || c == '\'') {
      i = end_of_text(toml, i);
      continue;
    }
    if (c == '[' || c == '{') ++brackets;
    if ((c == ']' || c == '}') && brackets > 0) --brackets;
    if (c == '=' || c == ',' || c == '\n' || c == '[' || c == '{') dots = 0;
    if (c == '.') ++dots;
    if (brackets > kMaxTomlDepth || dots > kMaxTomlDepth) return i;
    ++i;
  }
  return std::nullopt;
}

}  // namespace plimsoll
