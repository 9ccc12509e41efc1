#include "importers/kineto_trace/json_scanner.h"

namespace plimsoll {
namespace {

constexpr size_t kMostDepth = 1000;
constexpr size_t kFarthestLook = 64;  // spaces between a string and what follows it

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

char JsonScanner::peek() {
  while (is_space(look())) step();
  return look();
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
  if (!accept('"')) return false;
  while (!at_end()) {
    const char c = look();
    step();
    if (c == '"' && is_end_of_string()) return true;
    if (text.size() < kMostText) text += c;
    if (c != '\\' || at_end()) continue;
    if (text.size() < kMostText) text += look();
    step();
  }
  return false;
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
  std::string ignored;
  size_t depth = 0;
  do {
    const char c = peek();
    if (at_end()) return false;
    if (c == '"') {
      if (!string(ignored)) return false;
    } else if (c == '{' || c == '[') {
      step();
      if (++depth > kMostDepth) return false;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return false;
      step();
      --depth;
    } else if ((c == ',' || c == ':') && depth == 0) {
      return false;
    } else {
      step();
      if (depth == 0)  // a number or a word
        while (!at_end() && look() != ',' && look() != '}' && look() != ']' && !is_space(look())) step();
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
