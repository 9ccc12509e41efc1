#include "importers/input_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "importers/byte_source.h"

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

}  // namespace

InputStream::InputStream(InputStream&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::move(other.name_)),
      size_(other.size_),
      bytes_read_(other.bytes_read_),
      head_(other.head_),
      head_bytes_(other.head_bytes_) {}

InputStream::~InputStream() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// A failure shows again at the next read.
void InputStream::read_head() {
  while (head_bytes_ < kMagic) {
    const ssize_t got = read_some(descriptor_, head_.data() + head_bytes_, kMagic - head_bytes_);
    if (got <= 0) return;
    head_bytes_ += static_cast<size_t>(got);
  }
}

size_t InputStream::take_head(uint8_t* to, size_t most) {
  const size_t count = std::min(most, head_bytes_);
  std::memcpy(to, head_.data(), count);
  std::memmove(head_.data(), head_.data() + count, head_bytes_ - count);
  head_bytes_ -= count;
  return count;
}

size_t InputStream::read(uint8_t* to, size_t count, std::optional<Error>& error) {
  size_t got = take_head(to, count);
  if (got == 0) {
    const ssize_t more = read_some(descriptor_, to, count);
    if (more < 0)
      error = Error{.position = {.file = name_},
                    .message = fmt::format("can't be read: {}", std::strerror(errno)),
                    .expected = "a file that gives its bytes"};
    got = static_cast<size_t>(std::max<ssize_t>(more, 0));
  }
  bytes_read_ += got;
  return got;
}

Result<InputStream> InputStream::open(const std::filesystem::path& path) {
  InputStream file(input_name(path));
  const auto refuse = [&](std::string message, std::string hint = {}) {
    return fail({.position = {.file = file.name_},
                 .message = std::move(message),
                 .expected = "a file that can be read",
                 .hint = std::move(hint)});
  };
  file.descriptor_ = path == kStandardInput ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                            : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor_ < 0) return refuse(fmt::format("can't be opened: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(file.descriptor_, &info) == 0 && S_ISDIR(info.st_mode))
    return refuse("is a folder", "name the file in it");
  if (S_ISREG(info.st_mode)) file.size_ = static_cast<uint64_t>(info.st_size);
  file.read_head();
  return file;
}

}  // namespace plimsoll
