#include <algorithm>
#include <cassert>
#include <utility>

#include "corpus/text_scanner.h"

namespace plimsoll {
namespace {

class SeparatedTextScanner final : public TextScanner {
 public:
  SeparatedTextScanner(InputFile file, const TextPlace& from, std::string separator)
      : file_(std::move(file)), at_(from), buffer_end_(from.offset), separator_(std::move(separator)) {
    assert(!separator_.empty());
  }

  Result<bool> next(TextPiece& piece) override {
    if (at_.offset == file_.size()) return false;
    PLIMSOLL_CHECK(fill());
    const size_t begin = buffer_.size() - static_cast<size_t>(buffer_end_ - at_.offset);
    const size_t found = buffer_.find(separator_, begin);
    const bool is_last = buffer_end_ == file_.size();
    const bool is_separated = found != std::string::npos;
    // Without a separator the last bytes may be the begin of one that goes on behind the buffer.
    const size_t end = is_separated ? found : buffer_.size() - (is_last ? 0 : separator_.size() - 1);
    const bool has_bytes = at_.in_document || end > begin;
    const bool is_ended = is_separated || is_last;
    at_.offset += end - begin + (is_separated ? separator_.size() : 0);
    at_.in_document = has_bytes && !is_ended;
    piece = {
        .bytes = buffer_.substr(begin, end - begin), .ends_document = has_bytes && is_ended, .next = at_};
    return true;
  }

 private:
  static constexpr uint64_t kPiece = uint64_t{64} << 10;

  // The buffer then holds a piece and a separator from at_ on, or all that the file has.
  Result<void> fill() {
    const uint64_t held = buffer_end_ - at_.offset;
    const uint64_t wanted = std::min(kPiece + separator_.size(), file_.size() - at_.offset);
    if (held >= wanted || (held > 0 && buffer_.find(separator_, buffer_.size() - held) != std::string::npos))
      return {};
    buffer_.erase(0, buffer_.size() - static_cast<size_t>(held));
    buffer_.resize(static_cast<size_t>(wanted));
    PLIMSOLL_CHECK(file_.read(buffer_end_, std::as_writable_bytes(std::span(buffer_)).subspan(held)));
    buffer_end_ += wanted - held;
    return {};
  }

  InputFile file_;
  TextPlace at_;
  uint64_t buffer_end_;  // in the file
  std::string buffer_;
  std::string separator_;
};

}  // namespace

std::unique_ptr<TextScanner> scan_separated_text(InputFile file, const TextPlace& from,
                                                 std::string separator) {
  return std::make_unique<SeparatedTextScanner>(std::move(file), from, std::move(separator));
}

}  // namespace plimsoll
