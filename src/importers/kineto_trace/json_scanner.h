// Walks through JSON as a stream, keeping nothing: the caller takes what it knows and skips the rest. Lenient
// where PyTorch's profiler is careless: a quotation mark inside a string that is not escaped belongs to the
// string unless a comma, colon or closing bracket follows. Skipped values aren't checked.
//
//   JsonScanner json(source);
//   for (bool more = json.enter('{'); more && json.key(name); more = json.next('}'))
//     if (name == "ts") json.number(text); else json.skip_value();
//
// All return false at what they didn't expect, and at the end of the bytes; `at_end()` tells which.
// Bounded: strings and numbers are kept up to kMostText bytes, the rest is passed over; a skipped value may
// be kMostDepth brackets deep, `is_too_deep()` says when one was deeper.
#pragma once

#include <string>
#include <string_view>

#include "importers/byte_source.h"

namespace plimsoll {

class JsonScanner {
 public:
  static constexpr size_t kMostText = 256;
  static constexpr size_t kMostDepth = 1000;

  explicit JsonScanner(ByteSource& source) : source_(source) {}

  // The next byte that is no space; 0 at the end.
  char peek();
  bool accept(char c);
  // The bracket that opens; whether there is anything before the one that closes it.
  bool enter(char open);
  // Behind a member: whether there is another, or else the bracket that closes has been passed.
  bool next(char close);
  // Whether `enter` or `next` returned false because all was as it should be.
  bool is_closed() const { return is_closed_; }

  bool key(std::string& text) { return string(text) && accept(':'); }
  bool string(std::string& text);
  bool number(std::string& text);
  bool skip_value();
  // To the next place where an object with this first key begins; stands before its bracket.
  bool skip_to_object(std::string_view first_key);

  bool is_too_deep() const { return is_too_deep_; }
  bool at_end() { return !source_.ensure(1); }
  uint64_t offset() const { return source_.offset(); }

 private:
  char look(size_t at = 0) { return source_.ensure(at + 1) ? static_cast<char>(source_.peek(at)) : '\0'; }
  void step() { source_.take(1); }
  bool pass_string(std::string* text);  // kept in `text` unless that is null
  std::string_view take_plain();
  void pass_unmarked();
  bool is_end_of_string();

  ByteSource& source_;
  bool is_closed_ = false, is_too_deep_ = false;
};

}  // namespace plimsoll
