#include "importers/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/read_file.h"

namespace plimsoll {
namespace {

constexpr std::string_view kStandardInput = "-";

// As read(), again where a signal came in between.
ssize_t read_some(int descriptor, uint8_t* to, size_t count) {
  ssize_t got = 0;
  do {
    got = ::read(descriptor, to, count);
  } while (got < 0 && errno == EINTR);
  return got;
}

// A descriptor and what has been read of it to tell gzip: a pipe gives its bytes only once.
struct OpenFile {
  static constexpr size_t kMagic = 2;

  int descriptor = -1;
  std::string name;
  uint64_t size = 0;
  std::array<uint8_t, kMagic> head{};
  size_t head_bytes = 0;

  // A failure shows again at the next read.
  void read_head() {
    while (head_bytes < kMagic) {
      const ssize_t got = read_some(descriptor, head.data() + head_bytes, kMagic - head_bytes);
      if (got <= 0) return;
      head_bytes += static_cast<size_t>(got);
    }
  }
  bool is_gzip() const { return head_bytes == kMagic && head[0] == 0x1f && head[1] == 0x8b; }
  size_t take_head(uint8_t* to, size_t most) {
    const size_t count = std::min(most, head_bytes);
    std::memcpy(to, head.data(), count);
    std::memmove(head.data(), head.data() + count, head_bytes - count);
    head_bytes -= count;
    return count;
  }
};

class FileSource : public ByteSource {
 public:
  explicit FileSource(OpenFile file) : file_(std::move(file)) { file_size_ = file_.size; }
  ~FileSource() override { ::close(file_.descriptor); }

 protected:
  size_t read(uint8_t* to, size_t count) override { return read_file(to, count); }

  size_t read_file(uint8_t* to, size_t count) {
    if (const size_t head = file_.take_head(to, count); head > 0) return counted(head);
    const ssize_t got = read_some(file_.descriptor, to, count);
    if (got < 0) {
      fail_with(fmt::format("can't be read: {}", std::strerror(errno)), "a file that gives its bytes");
      return 0;
    }
    return counted(static_cast<size_t>(got));
  }
  void fail_with(std::string message, std::string expected, std::string hint = {}) {
    if (error_) return;
    error_ = Error{.position = {.file = file_.name},
                   .message = std::move(message),
                   .expected = std::move(expected),
                   .hint = std::move(hint)};
  }

 private:
  size_t counted(size_t bytes) {
    consumed_ += bytes;
    return bytes;
  }

  OpenFile file_;
};

// One or more gzip members, one after the other.
class GzipSource final : public FileSource {
 public:
  explicit GzipSource(OpenFile file) : FileSource(std::move(file)), input_(kInput) {
    constexpr int kGzip = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzip) != Z_OK)
      fail_with("can't be decompressed", "some memory for it");
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
  static constexpr const char* kCopied = "was the file copied whole?";

  void step() {
    if (stream_.avail_in == 0) {
      stream_.next_in = input_.data();
      stream_.avail_in = static_cast<uInt>(read_file(input_.data(), input_.size()));
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

  std::vector<uint8_t> input_;
  z_stream stream_{};
  bool is_done_ = false, is_between_members_ = false;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) { file_size_ = bytes.size(); }
  explicit MemorySource(std::string&& bytes) : owned_(std::move(bytes)), bytes_(owned_) {
    file_size_ = bytes_.size();
  }

 protected:
  size_t read(uint8_t* to, size_t count) override {
    const size_t copied = bytes_.copy(reinterpret_cast<char*>(to), count);
    bytes_.remove_prefix(copied);
    consumed_ += copied;
    return copied;
  }

 private:
  std::string owned_;  // where the source owns them
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

std::unique_ptr<ByteSource> ByteSource::owning(std::string bytes) {
  return std::make_unique<MemorySource>(std::move(bytes));
}

std::string input_name(const std::filesystem::path& path) {
  return path == kStandardInput ? "standard input" : shown_path(path);
}

Result<std::unique_ptr<ByteSource>> ByteSource::open(const std::filesystem::path& path) {
  OpenFile file{.name = input_name(path)};
  const auto refuse = [&](std::string message, std::string hint = {}) {
    if (file.descriptor >= 0) ::close(file.descriptor);
    return fail({.position = {.file = file.name},
                 .message = std::move(message),
                 .expected = "a file that can be read",
                 .hint = std::move(hint)});
  };
  file.descriptor = path == kStandardInput ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                           : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor < 0) return refuse(fmt::format("can't be opened: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(file.descriptor, &info) == 0 && S_ISDIR(info.st_mode))
    return refuse("is a folder", "name the file in it");
  if (S_ISREG(info.st_mode)) file.size = static_cast<uint64_t>(info.st_size);
  file.read_head();
  if (file.is_gzip()) return std::make_unique<GzipSource>(std::move(file));
  return std::make_unique<FileSource>(std::move(file));
}

}  // namespace plimsoll
