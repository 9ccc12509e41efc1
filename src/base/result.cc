#include "base/result.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace plimsoll {

std::string SourcePosition::to_text() const {
  std::string text = file;
  if (line) text += fmt::format(":{}", *line);
  if (line && column) text += fmt::format(":{}", *column);
  if (byte) text += fmt::format("{}byte {}", text.empty() ? "" : ", ", *byte);
  if (!key.empty()) text += fmt::format("{}key \"{}\"", text.empty() ? "" : ", ", key);
  return text;
}

std::string Error::to_text() const {
  std::string text = position.to_text();
  if (!text.empty()) text += ": ";
  text += message;
  if (!expected.empty()) text += fmt::format("\n  expected: {}", expected);
  if (!hint.empty()) text += fmt::format("\n  hint: {}", hint);
  return printable(text);
}

}  // namespace plimsoll
