// Reads the text form of a Program word by word and knows where it is. A line ends at its end or at a `#`
// outside quotes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll {

class TextScanner {
 public:
  TextScanner(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  // Goes to the next line that says something; false at the end of the text.
  bool next_line();
  // The line has nothing more.
  bool at_line_end();

  bool accept(char symbol);
  bool accept(std::string_view word);  // a whole word
  Result<void> expect(char symbol);
  Result<void> expect(std::string_view word);
  // The next word without taking it: letters, digits, '_' and '.'; empty when there is none.
  std::string_view peek_word();
  std::string_view take_word();

  Result<int64_t> integer(int64_t lowest, int64_t highest, std::string_view what);
  Result<double> number(std::string_view what);
  Result<std::string> quoted();
  // A word or a quoted text.
  Result<std::string> name(std::string_view what);
  // The number of "s12" or "%12".
  Result<uint32_t> id(char letter, std::string_view what);

  int line() const { return line_; }
  int column();  // of what comes next
  SourcePosition position();
  tl::unexpected<Error> error(std::string message, std::string expected = {});

 private:
  void skip_spaces();
  bool is_at(size_t i, char c) const { return i < text_.size() && text_[i] == c; }

  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 0;
};

}  // namespace plimsoll
