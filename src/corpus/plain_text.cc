#include "corpus/plain_text.h"

#include <algorithm>
#include <utility>

namespace plimsoll {
namespace {

class PlainText final : public TokenSource {
 public:
  PlainText(std::vector<CorpusFile> files, bool end_of_document)
      : files_(std::move(files)), end_of_document_(end_of_document) {
    for (const CorpusFile& file : files_) {
      starts_.push_back(tokens_);
      tokens_ += static_cast<int64_t>(file.stamp.size) + (end_of_document_ ? 1 : 0);
    }
  }

  int64_t tokens() const override { return tokens_; }
  int64_t vocabulary() const override { return kByteEndOfDocument + (end_of_document_ ? 1 : 0); }
  uint64_t index_bytes() const override { return starts_.size() * sizeof(starts_[0]); }

  Result<void> read(int64_t first, std::span<int64_t> to) const override {
    for (size_t i = file_of_token(starts_, first); !to.empty(); ++i) {
      const int64_t place = first - starts_[i];
      const int64_t bytes_left = static_cast<int64_t>(files_[i].stamp.size) - place;
      const size_t count = std::min(to.size(), static_cast<size_t>(std::max<int64_t>(bytes_left, 0)));
      PLIMSOLL_CHECK(read_bytes(files_[i], static_cast<uint64_t>(place), to.first(count)));
      to = to.subspan(count);
      first += static_cast<int64_t>(count);
      if (to.empty() || !end_of_document_) continue;
      to[0] = kByteEndOfDocument;
      to = to.subspan(1);
      ++first;
    }
    return {};
  }

 private:
  static Result<void> read_bytes(const CorpusFile& file, uint64_t offset, std::span<int64_t> to) {
    if (to.empty()) return {};
    PLIMSOLL_TRY(opened, open_unchanged(file));
    // The bytes go to the end of the room for the ids, which are written from the front and never reach them.
    const std::span<std::byte> room = std::as_writable_bytes(to).last(to.size());
    PLIMSOLL_CHECK(opened.read(offset, room));
    for (size_t i = 0; i < to.size(); ++i) to[i] = std::to_integer<int64_t>(room[i]);
    return {};
  }

  std::vector<CorpusFile> files_;
  std::vector<int64_t> starts_;  // each file's first token
  int64_t tokens_ = 0;
  bool end_of_document_;
};

}  // namespace

std::unique_ptr<TokenSource> open_plain_text(std::vector<CorpusFile> files, bool end_of_document) {
  return std::make_unique<PlainText>(std::move(files), end_of_document);
}

}  // namespace plimsoll
