#include "program/text/scanner.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace plimsoll {
namespace {

constexpr uint32_t kHighestId = (uint32_t{1} << 31) - 1;

bool is_word_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

}  // namespace

bool TextScanner::next_line() {
  while (true) {
    if (line_ > 0) {
      const size_t end = text_.find('\n', at_);
      if (end == std::string_view::npos) {
        at_ = text_.size();
        return false;
      }
      at_ = end + 1;
    }
    ++line_;
    line_start_ = at_;
    if (!at_line_end()) return true;
    if (at_ >= text_.size()) return false;
  }
}

void TextScanner::skip_spaces() {
  while (is_at(at_, ' ') || is_at(at_, '\t') || is_at(at_, '\r')) ++at_;
}

bool TextScanner::at_line_end() {
  skip_spaces();
  return at_ >= text_.size() || text_[at_] == '\n' || text_[at_] == '#';
}

bool TextScanner::accept(char symbol) {
  skip_spaces();
  if (!is_at(at_, symbol)) return false;
  ++at_;
  return true;
}

bool TextScanner::accept(std::string_view word) {
  if (peek_word() != word) return false;
  at_ += word.size();
  return true;
}

Result<void> TextScanner::expect(char symbol) {
  if (!accept(symbol)) return error("unexpected text", fmt::format("\"{}\"", symbol));
  return {};
}

Result<void> TextScanner::expect(std::string_view word) {
  if (!accept(word)) return error("unexpected text", fmt::format("\"{}\"", word));
  return {};
}

std::string_view TextScanner::peek_word() {
  skip_spaces();
  size_t end = at_;
  while (end < text_.size() && is_word_letter(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

std::string_view TextScanner::take_word() {
  const std::string_view word = peek_word();
  at_ += word.size();
  return word;
}

Result<int64_t> TextScanner::integer(int64_t lowest, int64_t highest, std::string_view what) {
  skip_spaces();
  const bool is_hex = is_at(at_, '0') && is_at(at_ + 1, 'x');
  const char* const begin = text_.data() + at_ + (is_hex ? 2 : 0);
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(begin, text_.data() + text_.size(), value, is_hex ? 16 : 10);
  if (problem == std::errc::invalid_argument)
    return error("unexpected text", fmt::format("{}, an integer", what));
  if (problem != std::errc() || value < lowest || value > highest)
    return error(fmt::format("{} is out of range", what), fmt::format("from {} to {}", lowest, highest));
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

Result<double> TextScanner::number(std::string_view what) {
  skip_spaces();
  double value = 0;
  const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (problem != std::errc() || std::isnan(value))
    return error("unexpected text", fmt::format("{}, a number", what));
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

Result<std::string> TextScanner::quoted() {
  skip_spaces();
  if (!is_at(at_, '"')) return error("unexpected text", "a text in quotes");
  std::string result;
  size_t i = at_ + 1;
  for (; i < text_.size() && text_[i] != '"' && text_[i] != '\n'; ++i) {
    if (text_[i] != '\\') {
      result += text_[i];
      continue;
    }
    ++i;
    unsigned code = 0;
    if (is_at(i, '"') || is_at(i, '\\')) {
      result += text_[i];
    } else if (is_at(i, 'x') && i + 2 < text_.size() &&
               std::from_chars(&text_[i + 1], &text_[i + 1] + 2, code, 16).ptr == &text_[i + 1] + 2) {
      result += static_cast<char>(code);
      i += 2;
    } else {
      return error("a backslash that escapes nothing", "\\\", \\\\ or \\xNN");
    }
  }
  if (!is_at(i, '"')) return error("a quoted text that doesn't end on its line", "\"");
  at_ = i + 1;
  return result;
}

Result<std::string> TextScanner::name(std::string_view what) {
  skip_spaces();
  if (is_at(at_, '"')) return quoted();
  const std::string_view word = take_word();
  if (word.empty()) return error("unexpected text", fmt::format("{}, a word or a text in quotes", what));
  return std::string(word);
}

Result<uint32_t> TextScanner::id(char letter, std::string_view what) {
  skip_spaces();
  if (!is_at(at_, letter)) return error("unexpected text", fmt::format("{}, such as {}0", what, letter));
  uint32_t value = 0;
  const char* const begin = text_.data() + at_ + 1;
  const auto [end, problem] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (problem != std::errc() || value > kHighestId)
    return error(fmt::format("{} has no usable number", what),
                 fmt::format("{}0 to {}{}", letter, letter, kHighestId));
  at_ = static_cast<size_t>(end - text_.data());
  if (at_ < text_.size() && is_word_letter(text_[at_])) return error("unexpected text", "a space or a sign");
  return value;
}

int TextScanner::column() {
  skip_spaces();
  return static_cast<int>(at_ - line_start_) + 1;
}

SourcePosition TextScanner::position() { return {.file = file_, .line = line_, .column = column()}; }

tl::unexpected<Error> TextScanner::error(std::string message, std::string expected) {
  return fail({.position = position(), .message = std::move(message), .expected = std::move(expected)});
}

}  // namespace plimsoll
