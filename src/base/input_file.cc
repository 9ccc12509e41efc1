#include "base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace plimsoll {
namespace {

FileStamp stamp_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<uint64_t>(status.st_size),
          .changed_seconds = status.st_mtim.tv_sec,
          .changed_nanoseconds = status.st_mtim.tv_nsec};
}

}  // namespace

Result<InputFile> InputFile::open(const std::filesystem::path& path, std::string expected) {
  const auto refuse = [&](std::string message) {
    return fail({.position = {.file = path.string()}, .message = std::move(message), .expected = expected});
  };
  // Opening a pipe to read waits for a writer unless it is non-blocking; on regular files that changes
  // nothing.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return refuse(fmt::format("can't be opened: {}", std::strerror(errno)));
  struct stat status {};
  const bool is_known = fstat(descriptor, &status) == 0;
  InputFile file(descriptor, path.string(), expected, stamp_of(status));
  if (!is_known) return refuse(fmt::format("can't be opened: {}", std::strerror(errno)));
  if (S_ISDIR(status.st_mode)) return refuse("is a folder");
  if (!S_ISREG(status.st_mode)) return refuse("is no regular file");
  return file;
}

InputFile::InputFile(int descriptor, std::string name, std::string expected, const FileStamp& stamp)
    : descriptor_(descriptor), name_(std::move(name)), expected_(std::move(expected)), stamp_(stamp) {}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::move(other.name_)),
      expected_(std::move(other.expected_)),
      stamp_(other.stamp_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  name_ = std::move(other.name_);
  expected_ = std::move(other.expected_);
  stamp_ = other.stamp_;
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Error InputFile::wrong(std::string message) const {
  return {.position = {.file = name_}, .message = std::move(message), .expected = expected_};
}

Result<void> InputFile::check_unchanged() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0)
    return fail(wrong(fmt::format("can't be read: {}", std::strerror(errno))));
  if (stamp_of(status) == stamp_) return {};
  Error error = wrong(static_cast<uint64_t>(status.st_size) == stamp_.size
                          ? "was written to while it was in use"
                          : fmt::format("had {} bytes when it was opened and has {} now", stamp_.size,
                                        static_cast<uint64_t>(status.st_size)));
  error.expected = "a file that stays as it is while it is in use";
  return fail(std::move(error));
}

Result<void> InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // Linux moves less than 2 GiB a call
  if (offset > size() || to.size() > size() - offset)
    return fail(
        wrong(fmt::format("has {} bytes, but {} from byte {} on are needed", size(), to.size(), offset)));
  for (size_t done = 0; done < to.size();) {
    const ssize_t got = pread(descriptor_, to.data() + done, std::min(kMostAtOnce, to.size() - done),
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Error error = wrong(fmt::format("can't be read: {}", std::strerror(errno)));
      error.position.byte = offset + done;
      return fail(std::move(error));
    }
    if (got == 0) break;  // cut short, as the check says
    done += static_cast<size_t>(got);
  }
  return check_unchanged();
}

}  // namespace plimsoll
