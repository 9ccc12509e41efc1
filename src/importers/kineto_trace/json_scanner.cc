#include "importers/kineto_trace/json_scanner.h"

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

constexpr size_t kFarthestLook = 64;  // spaces between a string and what follows it

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// What a value that is passed over is told by.
constexpr std::array<bool, 256> kIsMark = [] {
  std::array<bool, 256> is_mark{};
  for (unsigned char c : {'"', '{', '}', '[', ']'}) is_mark[c] = true;
  return is_mark;
}();

}  // namespace

char JsonScanner::peek() {
  while (source_.ensure(1)) {
    const uint8_t* const begin = source_.next_bytes();
    const uint8_t* const end = begin + source_.available();
    const uint8_t* const found =
        std::find_if_not(begin, end, [](uint8_t c) { return is_space(static_cast<char>(c)); });
    source_.take(static_cast<size_t>(found - begin));
    if (found != end) return static_cast<char>(*found);
  }
  return '\0';
}

bool JsonScanner::accept(char c) {
  if (peek() != c || at_end()) return false;
  step();
  return true;
}

bool JsonScanner::enter(char open) {
  is_closed_ = false;
  if (!accept(open)) return false;
  is_closed_ = accept(open == '{' ? '}' : ']');
  return !is_closed_;
}

bool JsonScanner::next(char close) {
  if (accept(',')) return true;
  is_closed_ = accept(close);
  return false;
}

bool JsonScanner::string(std::string& text) {
  text.clear();
  return pass_string(&text);
}

bool JsonScanner::pass_string(std::string* text) {
  const auto keep = [&](std::string_view part) {
    if (text) text->append(part.substr(0, kMostText - std::min(text->size(), kMostText)));
  };
  if (!accept('"')) return false;
  while (!at_end()) {
    keep(take_plain());
    const char c = look();
    if (at_end()) return false;
    step();
    if (c == '"' && is_end_of_string()) return true;
    keep({&c, 1});
    if (c != '\\' || at_end()) continue;
    const char escaped = look();
    keep({&escaped, 1});
    step();
  }
  return false;
}

// What stands at hand before the next quotation mark or backslash.
std::string_view JsonScanner::take_plain() {
  constexpr size_t kPiece = 256;  // a quotation mark that is far away isn't looked for at each backslash
  const std::string_view piece(reinterpret_cast<const char*>(source_.next_bytes()),
                               std::min(source_.available(), kPiece));
  const std::string_view unquoted = piece.substr(0, piece.find('"'));
  const std::string_view plain = unquoted.substr(0, unquoted.find('\\'));
  source_.take(plain.size());
  return plain;
}

// Of a skipped value what isn't told by itself: numbers, words, commas.
void JsonScanner::pass_unmarked() {
  const uint8_t* const begin = source_.next_bytes();
  const uint8_t* const end = begin + source_.available();
  source_.take(static_cast<size_t>(std::find_if(begin, end, [](uint8_t c) { return kIsMark[c]; }) - begin));
}

bool JsonScanner::is_end_of_string() {
  size_t at = 0;
  while (at < kFarthestLook && is_space(look(at))) ++at;
  const char c = look(at);
  return c == ',' || c == ':' || c == '}' || c == ']' || !source_.ensure(at + 1);
}

bool JsonScanner::number(std::string& text) {
  text.clear();
  peek();
  while (true) {
    const char c = look();
    const bool is_part = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
    if (!is_part) return !text.empty();
    if (text.size() < kMostText) text += c;
    step();
  }
}

bool JsonScanner::skip_value() {
  size_t depth = 0;
  do {
    const char c = peek();
    if (at_end()) return false;
    if (c == '"') {
      if (!pass_string(nullptr)) return false;
    } else if (c == '{' || c == '[') {
      if (depth == kMostDepth) is_too_deep_ = true;
      if (is_too_deep_) return false;
      step();
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return false;
      step();
      --depth;
    } else if (depth > 0) {
      pass_unmarked();
    } else if (c == ',' || c == ':') {
      return false;
    } else {  // a number or a word
      do step();
      while (!at_end() && look() != ',' && look() != '}' && look() != ']' && !is_space(look()));
    }
  } while (depth > 0);
  return true;
}

bool JsonScanner::skip_to_object(std::string_view first_key) {
  while (!at_end()) {
    if (look() != '{') {
      step();
      continue;
    }
    size_t at = 1;
    while (at < kFarthestLook && is_space(look(at))) ++at;
    bool is_same = look(at) == '"' && look(at + 1 + first_key.size()) == '"';
    for (size_t i = 0; is_same && i < first_key.size(); ++i) is_same = look(at + 1 + i) == first_key[i];
    if (is_same) return true;
    step();
  }
  return false;
}

}  // namespace plimsoll
