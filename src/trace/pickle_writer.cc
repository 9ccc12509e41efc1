#include "trace/pickle_writer.h"

#include <bit>
#include <cassert>

#include "trace/utf8.h"

namespace plimsoll {
namespace {

constexpr int kBatch = 1000;             // items added at once, as Python's own writer does
constexpr size_t kBuffer = 1U << 16;     // bytes kept back from the stream
constexpr size_t kLongestMemoized = 64;  // longer strings are seldom repeated

}  // namespace

PickleWriter::PickleWriter(std::ostream& out) : out_(out), buffer_("\x80\x04") {}

void PickleWriter::begin(char empty, char close) {
  before_value();
  byte(empty);
  byte('(');
  open_.push_back({.close = close});
}

void PickleWriter::end() {
  assert(!open_.empty() && "an end without a begin");
  byte(open_.back().close);
  open_.pop_back();
  after_value();
}

// A batch of items is added to the container when full, and the next one begun.
void PickleWriter::before_value() {
  if (open_.empty() || open_.back().close != 'e' || open_.back().pending < kBatch) return;
  byte('e');
  byte('(');
  open_.back().pending = 0;
}

void PickleWriter::after_value() {
  if (!open_.empty()) ++open_.back().pending;
  if (buffer_.size() >= kBuffer) flush();
}

void PickleWriter::key(std::string_view name) {
  assert(!open_.empty() && open_.back().close == 'u' && "keys stand in dicts");
  string(name);
}

void PickleWriter::push_integer(int64_t value) {
  if (value >= 0) return push_unsigned(static_cast<uint64_t>(value));
  const bool is_short = value >= INT32_MIN;
  byte(is_short ? 'J' : 0x8a);
  if (!is_short) byte(8);
  little_endian(static_cast<uint64_t>(value), is_short ? 4 : 8);
}

void PickleWriter::push_unsigned(uint64_t value) {
  if (value < 256) {
    byte('K');
    little_endian(value, 1);
  } else if (value < 65536) {
    byte('M');
    little_endian(value, 2);
  } else if (value <= INT32_MAX) {
    byte('J');
    little_endian(value, 4);
  } else {
    const int bytes = static_cast<int>(std::bit_width(value)) / 8 + 1;  // with room for the sign
    byte(0x8a);
    byte(bytes);
    little_endian(value, bytes);
  }
}

void PickleWriter::pair(int64_t first, int64_t second) {
  before_value();
  push_integer(first);
  push_integer(second);
  byte(0x86);
  after_value();
}

void PickleWriter::number(double value) {
  before_value();
  byte('G');
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) byte(static_cast<int>(bits >> shift & 0xff));
  after_value();
}

void PickleWriter::boolean(bool value) {
  before_value();
  byte(value ? 0x88 : 0x89);
  after_value();
}

void PickleWriter::string(std::string_view text) {
  std::string valid = to_valid_utf8(text);
  const auto known = strings_.find(valid);
  if (known != strings_.end()) return use(known->second);
  before_value();
  if (valid.size() < 256) {
    byte(0x8c);
    little_endian(valid.size(), 1);
  } else {
    byte('X');
    little_endian(valid.size(), 4);
  }
  buffer_ += valid;
  if (valid.size() <= kLongestMemoized) {
    const uint32_t handle = remember();
    strings_.emplace(std::move(valid), handle);
  }
  after_value();
}

uint32_t PickleWriter::remember() {
  byte(0x94);
  return memo_size_++;
}

void PickleWriter::use(uint32_t handle) {
  before_value();
  byte(handle < 256 ? 'h' : 'j');
  little_endian(handle, handle < 256 ? 1 : 4);
  after_value();
}

void PickleWriter::finish() {
  assert(open_.empty() && "a begin without an end");
  byte('.');
  flush();
}

void PickleWriter::little_endian(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    byte(static_cast<int>(value & 0xff));
    value = i < 7 ? value >> 8 : 0;
  }
}

void PickleWriter::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

}  // namespace plimsoll
