// Makes bytes in a thread of its own, a few pieces ahead of who takes them: decompressing and understanding a
// file each take a core then. Memory: kPieces * kPieceBytes.
//
//   ReadAhead<State> ahead([&](uint8_t* to, size_t count, State& state) { return make(to, count, state); });
//   for (auto* piece = &ahead.next(); piece->size > 0; piece = &ahead.next()) use(piece->bytes, piece->size);
//
// Thread-safety: `make` runs in the thread alone; the rest is for one other thread. What `make` has besides
// its bytes goes with each piece as a Note, as of the moment when the piece was done.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace plimsoll {

template <typename Note>
class ReadAhead {
 public:
  static constexpr size_t kPieces = 4, kPieceBytes = size_t{256} << 10;

  struct Piece {
    std::unique_ptr<uint8_t[]> bytes;
    size_t size = 0;
    Note note;
  };
  // Fills up to `count` bytes and the note, and returns how many there are; 0: no more.
  using Make = std::function<size_t(uint8_t* to, size_t count, Note& note)>;

  // Errors: std::system_error, no thread can be had.
  explicit ReadAhead(Make make) : make_(std::move(make)) {
    for (Piece& piece : pieces_) piece.bytes = std::make_unique_for_overwrite<uint8_t[]>(kPieceBytes);
    thread_ = std::thread([this] { run(); });
  }
  ~ReadAhead() {
    {
      const std::scoped_lock lock(mutex_);
      is_stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The next piece, which is good until the call after; the last one is empty and stays.
  const Piece& next() {
    std::unique_lock lock(mutex_);
    if (has_piece_ && pieces_[taken_ % kPieces].size > 0) ++taken_;
    has_piece_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return taken_ < made_; });
    return pieces_[taken_ % kPieces];
  }

 private:
  void run() {
    for (bool is_last = false; !is_last;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return is_stopped_ || made_ - taken_ < kPieces; });
        if (is_stopped_) return;
      }
      Piece& piece = pieces_[made_ % kPieces];  // nobody else's until it is counted
      piece.size = make_(piece.bytes.get(), kPieceBytes, piece.note);
      is_last = piece.size == 0;
      {
        const std::scoped_lock lock(mutex_);
        ++made_;
      }
      changed_.notify_all();
    }
  }

  Make make_;
  std::array<Piece, kPieces> pieces_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t made_ = 0, taken_ = 0;  // pieces; `taken_` is in use while has_piece_
  bool has_piece_ = false, is_stopped_ = false;
  std::thread thread_;
};

}  // namespace plimsoll
