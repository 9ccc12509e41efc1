#include "importers/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace plimsoll {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(int descriptor, std::string name, uint64_t size)
      : descriptor_(descriptor), name_(std::move(name)) {
    file_size_ = size;
  }
  ~FileSource() override { ::close(descriptor_); }

 protected:
  size_t read(uint8_t* to, size_t count) override { return read_file(to, count); }

  size_t read_file(uint8_t* to, size_t count) {
    ssize_t got = 0;
    do {
      got = ::read(descriptor_, to, count);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      fail_with(fmt::format("cannot be read: {}", std::strerror(errno)));
      return 0;
    }
    consumed_ += static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }
  void fail_with(std::string message) {
    if (!error_) error_ = Error{.position = {.file = name_}, .message = std::move(message)};
  }

 private:
  int descriptor_;
  std::string name_;
};

// One or more gzip members, one after the other.
class GzipSource final : public FileSource {
 public:
  GzipSource(int descriptor, std::string name, uint64_t size)
      : FileSource(descriptor, std::move(name), size), input_(kInput) {
    constexpr int kGzip = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzip) != Z_OK) fail_with("cannot be decompressed: out of memory");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

 protected:
  size_t read(uint8_t* to, size_t count) override {
    stream_.next_out = to;
    stream_.avail_out = static_cast<uInt>(count);
    while (stream_.avail_out == count && !is_done_ && !error_) step();
    return count - stream_.avail_out;
  }

 private:
  static constexpr size_t kInput = size_t{256} << 10;

  void step() {
    if (stream_.avail_in == 0) {
      stream_.next_in = input_.data();
      stream_.avail_in = static_cast<uInt>(read_file(input_.data(), input_.size()));
      if (stream_.avail_in == 0) {
        if (!is_between_members_) fail_with("the gzip stream ends early");
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
      fail_with(fmt::format("the gzip stream is broken: {}", stream_.msg ? stream_.msg : zError(code)));
    }
  }

  std::vector<uint8_t> input_;
  z_stream stream_{};
  bool is_done_ = false, is_between_members_ = false;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) { file_size_ = bytes.size(); }

 protected:
  size_t read(uint8_t* to, size_t count) override {
    const size_t copied = bytes_.copy(reinterpret_cast<char*>(to), count);
    bytes_.remove_prefix(copied);
    consumed_ += copied;
    return copied;
  }

 private:
  std::string_view bytes_;
};

}  // namespace

bool ByteSource::refill(size_t count) {
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kWindow + kMargin);
  size_t kept = available();
  if (kept > 0) std::memmove(buffer_.get(), next_, kept);
  while (kept < count) {
    const size_t got = read(buffer_.get() + kept, kWindow - kept);
    if (got == 0) break;
    kept += got;
    end_offset_ += got;
  }
  std::memset(buffer_.get() + kept, 0, kMargin);
  next_ = buffer_.get();
  end_ = next_ + kept;
  return kept >= count;
}

std::string_view ByteSource::look(size_t count) {
  const size_t found = ensure(count) ? count : available();
  return {reinterpret_cast<const char*>(next_), found};
}

Result<std::string> ByteSource::take_rest(size_t most_bytes, const Error& too_long) {
  std::string text;
  while (ensure(1)) {
    const size_t count = available();
    text.append(reinterpret_cast<const char*>(take(count)), count);
    if (text.size() > most_bytes) return tl::unexpected(too_long);
  }
  if (error_) return tl::unexpected(*error_);
  return text;
}

std::optional<double> ByteSource::share_read() const {
  if (file_size_ == 0) return std::nullopt;
  return static_cast<double>(consumed_) / static_cast<double>(file_size_);
}

std::unique_ptr<ByteSource> ByteSource::of(std::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

Result<std::unique_ptr<ByteSource>> ByteSource::open(const std::filesystem::path& path) {
  const auto refuse = [&](std::string message, std::string hint = {}) {
    return fail(
        {.position = {.file = path.string()}, .message = std::move(message), .hint = std::move(hint)});
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return refuse(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode)) {
    ::close(descriptor);
    return refuse("is a folder", "name the file in it");
  }
  uint8_t magic[2] = {};
  const bool is_gzip = ::pread(descriptor, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  const auto size = static_cast<uint64_t>(info.st_size);
  if (is_gzip) return std::make_unique<GzipSource>(descriptor, path.string(), size);
  return std::make_unique<FileSource>(descriptor, path.string(), size);
}

}  // namespace plimsoll
