#include "corpus/indexed_text.h"

#include <algorithm>
#include <utility>

namespace plimsoll {
namespace {

struct Note {
  TextPlace place;
  int64_t first_token = 0;
};
static_assert(sizeof(Note) == 24);

class IndexedText final : public TokenSource {
 public:
  IndexedText(std::vector<CorpusFile> files, bool end_of_document, OpenScanner open_scanner)
      : files_(std::move(files)), end_of_document_(end_of_document), open_scanner_(std::move(open_scanner)) {}

  Result<void> build() {
    for (const CorpusFile& file : files_) {
      starts_.push_back(tokens_);
      first_notes_.push_back(notes_.size());
      PLIMSOLL_CHECK(note_file(file));
    }
    first_notes_.push_back(notes_.size());
    notes_.shrink_to_fit();
    return {};
  }

  int64_t tokens() const override { return tokens_; }
  int64_t vocabulary() const override { return kByteEndOfDocument + (end_of_document_ ? 1 : 0); }
  uint64_t index_bytes() const override {
    return notes_.size() * sizeof(Note) + starts_.size() * (sizeof(starts_[0]) + sizeof(first_notes_[0]));
  }

  Result<void> read(int64_t first, std::span<int64_t> to) const override {
    for (size_t i = file_of_token(starts_, first); !to.empty(); ++i) {
      PLIMSOLL_TRY(count, read_of_file(i, first, to));
      to = to.subspan(count);
      first += static_cast<int64_t>(count);
    }
    return {};
  }

 private:
  static constexpr uint64_t kNoteEvery = uint64_t{64} << 10;  // bytes of a file

  int64_t tokens_of(const TextPiece& piece) const {
    return static_cast<int64_t>(piece.bytes.size()) + (piece.ends_document && end_of_document_ ? 1 : 0);
  }

  Result<void> note_file(const CorpusFile& file) {
    PLIMSOLL_TRY(opened, open_unchanged(file));
    const auto scanner = open_scanner_(std::move(opened), {});
    notes_.push_back({.place = {}, .first_token = tokens_});
    TextPiece piece;
    while (true) {
      PLIMSOLL_TRY(has_more, scanner->next(piece));
      if (!has_more) return {};
      tokens_ += tokens_of(piece);
      if (piece.next.offset - notes_.back().place.offset >= kNoteEvery)
        notes_.push_back({.place = piece.next, .first_token = tokens_});
    }
  }

  const Note& note_before(size_t file, int64_t token) const {
    const auto begin = notes_.begin() + static_cast<std::ptrdiff_t>(first_notes_[file]);
    const auto end = notes_.begin() + static_cast<std::ptrdiff_t>(first_notes_[file + 1]);
    return *std::prev(std::upper_bound(
        begin, end, token, [](int64_t wanted, const Note& note) { return wanted < note.first_token; }));
  }

  // As many of the tokens as the file has.
  Result<size_t> read_of_file(size_t file, int64_t first, std::span<int64_t> to) const {
    PLIMSOLL_TRY(opened, open_unchanged(files_[file]));
    const Note& note = note_before(file, first);
    const auto scanner = open_scanner_(std::move(opened), note.place);
    int64_t passed_over = first - note.first_token;
    size_t done = 0;
    TextPiece piece;
    while (done < to.size()) {
      PLIMSOLL_TRY(has_more, scanner->next(piece));
      if (!has_more) break;
      const int64_t count = tokens_of(piece);
      if (passed_over >= count) {
        passed_over -= count;
        continue;
      }
      done += copy(piece, static_cast<size_t>(std::exchange(passed_over, 0)), to.subspan(done));
    }
    return done;
  }

  // The piece's tokens from `first` on, as many as fit.
  size_t copy(const TextPiece& piece, size_t first, std::span<int64_t> to) const {
    size_t done = 0;
    for (; first < piece.bytes.size() && done < to.size(); ++first)
      to[done++] = static_cast<unsigned char>(piece.bytes[first]);
    if (done < to.size() && piece.ends_document && end_of_document_) to[done++] = kByteEndOfDocument;
    return done;
  }

  std::vector<CorpusFile> files_;
  bool end_of_document_;
  OpenScanner open_scanner_;
  std::vector<int64_t> starts_;      // each file's first token
  std::vector<size_t> first_notes_;  // each file's first note, and the end of the last one's
  std::vector<Note> notes_;
  int64_t tokens_ = 0;
};

}  // namespace

Result<std::unique_ptr<TokenSource>> open_indexed_text(std::vector<CorpusFile> files, bool end_of_document,
                                                       OpenScanner open_scanner) {
  auto text = std::make_unique<IndexedText>(std::move(files), end_of_document, std::move(open_scanner));
  PLIMSOLL_CHECK(text->build());
  return std::unique_ptr<TokenSource>(std::move(text));
}

}  // namespace plimsoll
