#include "importers/gzip_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "importers/read_ahead.h"

namespace plimsoll {
namespace {

constexpr size_t kAheadFrom = size_t{4} << 20;  // what takes some milliseconds

class Decompressor {
 public:
  // What is known when some bytes have been made.
  struct State {
    uint64_t consumed = 0;  // of the file
    std::optional<Error> error;
  };

  explicit Decompressor(InputStream file) : file_(std::move(file)), input_(kInput) {
    constexpr int kGzip = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzip) != Z_OK)
      fail_with("can't be decompressed", "some memory for it");
  }
  ~Decompressor() { inflateEnd(&stream_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  size_t read(uint8_t* to, size_t count, State& state) {
    stream_.next_out = to;
    stream_.avail_out = static_cast<uInt>(count);
    while (stream_.avail_out > 0 && !is_done_ && !error_) step();
    state = {.consumed = file_.bytes_read(), .error = error_};
    return count - stream_.avail_out;
  }
  uint64_t file_size() const { return file_.size(); }

 private:
  static constexpr size_t kInput = size_t{256} << 10;
  static constexpr const char* kCopied = "was the file copied whole?";

  void step() {
    if (stream_.avail_in == 0) {
      stream_.next_in = input_.data();
      stream_.avail_in = static_cast<uInt>(file_.read(input_.data(), input_.size(), error_));
      if (stream_.avail_in == 0) {
        if (!is_between_members_) fail_with("the gzip stream ends early", "all of it", kCopied);
        is_done_ = true;
        return;
      }
    }
    is_between_members_ = false;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      is_between_members_ = true;
      inflateReset(&stream_);
    } else if (code != Z_OK) {
      fail_with(fmt::format("the gzip stream is broken: {}", stream_.msg ? stream_.msg : zError(code)),
                "what gzip wrote", kCopied);
    }
  }
  void fail_with(std::string message, std::string expected, std::string hint = {}) {
    if (error_) return;
    error_ = Error{.position = {.file = file_.name()},
                   .message = std::move(message),
                   .expected = std::move(expected),
                   .hint = std::move(hint)};
  }

  InputStream file_;
  std::vector<uint8_t> input_;
  z_stream stream_{};
  std::optional<Error> error_;
  bool is_done_ = false, is_between_members_ = false;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(InputStream file) : decompressor_(std::move(file)) {
    file_size_ = decompressor_.file_size();
  }

 protected:
  size_t read(uint8_t* to, size_t count) override {
    if (is_alone_ && made_ >= kAheadFrom) start_ahead();
    if (ahead_) return read_ahead(to, count);
    State state;
    const size_t size = decompressor_.read(to, count, state);
    note(state);
    made_ += size;
    return size;
  }

 private:
  using State = Decompressor::State;

  void start_ahead() {
    is_alone_ = false;
    try {
      ahead_ = std::make_unique<ReadAhead<State>>(
          [this](uint8_t* to, size_t count, State& state) { return decompressor_.read(to, count, state); });
    } catch (const std::system_error&) {  // no thread to be had: the same bytes, later
    }
  }
  size_t read_ahead(uint8_t* to, size_t count) {
    if (!piece_ || taken_ == piece_->size) {
      piece_ = &ahead_->next();
      taken_ = 0;
      note(piece_->note);
    }
    const size_t size = std::min(count, piece_->size - taken_);
    std::memcpy(to, piece_->bytes.get() + taken_, size);
    taken_ += size;
    return size;
  }
  void note(const State& state) {
    consumed_ = state.consumed;
    if (state.error) error_ = state.error;
  }

  Decompressor decompressor_;
  uint64_t made_ = 0;  // bytes, without a thread
  bool is_alone_ = true;
  const ReadAhead<State>::Piece* piece_ = nullptr;
  size_t taken_ = 0;  // of the piece
  std::unique_ptr<ReadAhead<State>> ahead_;
};

}  // namespace

std::unique_ptr<ByteSource> gzip_source(InputStream file) {
  return std::make_unique<GzipSource>(std::move(file));
}

}  // namespace plimsoll
