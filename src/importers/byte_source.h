// Bytes of a file in order, through a window: plain, or gzip (which is told from its first two bytes). Reads
// as much as fits into one buffer, whatever the file's size.
//
//   PLIMSOLL_TRY(source, ByteSource::open("snapshot.pickle.gz"));
//   while (source->ensure(8)) use(source->take(8));
//
// Offsets count uncompressed bytes. Errors while reading (a broken gzip stream, a failing disk) end the bytes
// and stand in `error()`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll {

// Of a path as messages show it; "-" is standard input.
std::string input_name(const std::filesystem::path& path);

class ByteSource {
 public:
  static constexpr size_t kWindow = size_t{1} << 20;
  static constexpr size_t kMargin = 16;

  // "-": standard input.
  static Result<std::unique_ptr<ByteSource>> open(const std::filesystem::path& path);
  // Bytes in memory; they must outlive the source.
  static std::unique_ptr<ByteSource> of(std::string_view bytes);
  static std::unique_ptr<ByteSource> owning(std::string bytes);

  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Whether `count` more bytes can be taken at once. REQUIRES count <= kWindow.
  bool ensure(size_t count) { return available() >= count || refill(count); }
  // REQUIRES ensure(count). Or, after ensure(kMargin), which may have failed, so many bytes at most: those
  // behind the end are zero and `is_overrun()` holds from then on; nothing else may be asked.
  const uint8_t* take(size_t count) {
    const uint8_t* const bytes = next_;
    next_ += count;
    return bytes;
  }
  uint8_t peek(size_t at) const { return next_[at]; }  // REQUIRES ensure(at + 1)
  // The next bytes, as many as there are up to `count`, without taking them.
  std::string_view look(size_t count);
  // All that is left. Errors: `too_long` when that is more than `most_bytes`; what error() says.
  Result<std::string> take_rest(size_t most_bytes, const Error& too_long);
  const uint8_t* next_bytes() const { return next_; }  // `available()` of them
  bool is_overrun() const { return next_ > end_; }
  size_t available() const { return static_cast<size_t>(end_ - next_); }
  uint64_t offset() const { return end_offset_ - available(); }  // of the next byte
  uint64_t end_offset() const { return end_offset_; }            // of the bytes that have been read
  uint64_t consumed_of_file() const { return consumed_; }        // compressed bytes, for progress
  // How much of the file has been read, from 0 to 1; nothing where its size isn't known, as of a pipe.
  std::optional<double> share_read() const;
  const std::optional<Error>& error() const { return error_; }

 protected:
  ByteSource() = default;
  // Reads up to `count` bytes into `to`; 0 at the end.
  virtual size_t read(uint8_t* to, size_t count) = 0;
  std::optional<Error> error_;
  uint64_t consumed_ = 0;
  uint64_t file_size_ = 0;

  const uint8_t* next_ = nullptr;
  const uint8_t* end_ = nullptr;
  uint64_t end_offset_ = 0;

 private:
  bool refill(size_t count);
  std::unique_ptr<uint8_t[]> buffer_;
};

}  // namespace plimsoll
