// Writes a Python pickle (protocol 4) of plain data: dicts, lists, strings, numbers, booleans. Nothing that a
// reader would have to execute, and only opcodes that PyTorch's memory page reads too. Strings are memoized,
// and so is any value that the caller asks to use again.
//
//   PickleWriter pickle(out);
//   pickle.begin_dict();
//   pickle.key("size"), pickle.integer(512);
//   pickle.key("frames"), pickle.begin_list(), pickle.end_list();
//   pickle.end_dict();
//   pickle.finish();
//
// Invariant: each begin has its end; in a dict a key stands before each value.
// Source: Lib/pickletools.py of Python; torch/utils/viz/MemoryViz.js.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll {

class PickleWriter {
 public:
  // The stream must outlive the writer.
  explicit PickleWriter(std::ostream& out);

  void begin_dict() { begin('}', 'u'); }
  void end_dict() { end(); }
  void begin_list() { begin(']', 'e'); }
  void end_list() { end(); }
  void key(std::string_view name);

  void integer(int64_t value) { before_value(), push_integer(value), after_value(); }
  void unsigned_integer(uint64_t value) { before_value(), push_unsigned(value), after_value(); }
  void number(double value);
  void boolean(bool value);
  void pair(int64_t first, int64_t second);  // a tuple of two
  void string(std::string_view text);        // written as valid UTF-8

  // Remembers the value written last, a whole one: use(handle) writes it again as the same object.
  uint32_t remember();
  void use(uint32_t handle);

  // REQUIRES exactly one value was written and all is ended.
  void finish();

 private:
  struct Open {
    char close = 'e';
    int pending = 0;  // items since the last batch
  };

  void push_integer(int64_t value);
  void push_unsigned(uint64_t value);
  void begin(char empty, char close);
  void end();
  void before_value();
  void after_value();
  void byte(int value) { buffer_ += static_cast<char>(value); }
  void little_endian(uint64_t value, int bytes);
  void flush();

  std::ostream& out_;
  std::string buffer_;
  std::vector<Open> open_;
  std::unordered_map<std::string, uint32_t> strings_;
  uint32_t memo_size_ = 0;
};

}  // namespace plimsoll
