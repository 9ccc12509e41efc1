#include "importers/decoded_source.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace plimsoll {
namespace {

constexpr size_t kUnit = 2;  // bytes
constexpr size_t kLookedAt = 4096;

void append(std::string& text, uint32_t point) {
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xc0 | (point >> 6));
  } else if (point < 0x10000) {
    add(0xe0 | (point >> 12));
    add(0x80 | ((point >> 6) & 0x3f));
  } else {
    add(0xf0 | (point >> 18));
    add(0x80 | ((point >> 12) & 0x3f));
    add(0x80 | ((point >> 6) & 0x3f));
  }
  add(0x80 | (point & 0x3f));
}

bool is_high(uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low(uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

// By the zeros of units that have one.
TextEncoding encoding_without_mark(std::string_view bytes) {
  constexpr size_t kLeastUnits = 2, kLeastShare = 4, kMostOthers = 64;
  const size_t units = bytes.size() / kUnit;
  size_t zero_first = 0, zero_second = 0;
  for (size_t i = 0; i < units; ++i) {
    const bool is_first = bytes[kUnit * i] == 0, is_second = bytes[kUnit * i + 1] == 0;
    if (is_first && is_second) return TextEncoding::kUtf8;  // no text
    zero_first += is_first;
    zero_second += is_second;
  }
  const auto is_ascii = [&](size_t zeros, size_t others) {
    return units >= kLeastUnits && zeros * kLeastShare >= units && others * kMostOthers <= zeros;
  };
  if (is_ascii(zero_second, zero_first)) return TextEncoding::kUtf16LittleEndian;
  return is_ascii(zero_first, zero_second) ? TextEncoding::kUtf16BigEndian : TextEncoding::kUtf8;
}

class Utf16Source final : public ByteSource {
 public:
  Utf16Source(std::unique_ptr<ByteSource> source, bool is_big_endian)
      : source_(std::move(source)), is_big_endian_(is_big_endian) {}

 protected:
  size_t read(uint8_t* to, size_t count) override {
    if (taken_ == piece_.size()) decode_piece();
    const size_t copied = piece_.copy(reinterpret_cast<char*>(to), count, taken_);
    taken_ += copied;
    return copied;
  }

 private:
  void decode_piece() {
    constexpr size_t kPiece = size_t{64} << 10;
    constexpr uint32_t kReplacement = 0xfffd;
    piece_.clear();
    taken_ = 0;
    while (piece_.size() < kPiece && source_->ensure(kUnit)) {
      const uint32_t unit = take_unit();
      if (is_high(unit) && source_->ensure(kUnit) && is_low(unit_at(0)))
        append(piece_, 0x10000 + ((unit - 0xd800) << 10) + (take_unit() - 0xdc00));
      else
        append(piece_, is_high(unit) || is_low(unit) ? kReplacement : unit);
    }
    consumed_ = source_->consumed_of_file();
    if (source_->error()) error_ = source_->error();
  }
  uint32_t unit_at(size_t at) const {
    const uint32_t first = source_->peek(at), second = source_->peek(at + 1);
    return is_big_endian_ ? first << 8 | second : second << 8 | first;
  }
  uint32_t take_unit() {
    const uint32_t unit = unit_at(0);
    source_->take(kUnit);
    return unit;
  }

  std::unique_ptr<ByteSource> source_;
  bool is_big_endian_;
  std::string piece_;
  size_t taken_ = 0;  // of the piece
};

}  // namespace

EncodingSign encoding_of(std::string_view first_bytes) {
  if (first_bytes.starts_with("\xef\xbb\xbf")) return {.encoding = TextEncoding::kUtf8, .mark_bytes = 3};
  if (first_bytes.starts_with("\xff\xfe"))
    return {.encoding = TextEncoding::kUtf16LittleEndian, .mark_bytes = kUnit};
  if (first_bytes.starts_with("\xfe\xff"))
    return {.encoding = TextEncoding::kUtf16BigEndian, .mark_bytes = kUnit};
  return {.encoding = encoding_without_mark(first_bytes.substr(0, kLookedAt))};
}

std::unique_ptr<ByteSource> decoded(std::unique_ptr<ByteSource> source) {
  const EncodingSign sign = encoding_of(source->look(kLookedAt));
  source->take(sign.mark_bytes);
  if (sign.encoding == TextEncoding::kUtf8) return source;
  return std::make_unique<Utf16Source>(std::move(source), sign.encoding == TextEncoding::kUtf16BigEndian);
}

}  // namespace plimsoll
