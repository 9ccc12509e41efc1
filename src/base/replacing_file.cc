#include "base/replacing_file.h"

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

namespace fs = std::filesystem;

// What the path leads to: links are followed even where the last leads nowhere yet, as open() does.
fs::path target_of(fs::path path) {
  constexpr int kMostLinks = 40;  // Linux's own bound
  std::error_code problem;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, problem); ++i) {
    const fs::path next = fs::read_symlink(path, problem);
    if (problem) break;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

// A name is on the disk only when its folder is. Returns 0, or why not.
int sync_folder_of(const fs::path& file) {
  return sync_to_disk(file.has_parent_path() ? file.parent_path() : fs::path("."));
}

}  // namespace

int sync_to_disk(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int why = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return why == EINVAL ? 0 : why;  // a file system that has no such call for folders
}

Result<ReplacingFile> ReplacingFile::create(const fs::path& path, uint64_t bytes) {
  struct stat old {};
  const bool is_there = stat(path.c_str(), &old) == 0;
  if (is_there && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode)) {
    ReplacingFile file(path);  // with its links: those of /proc/self/fd lead to no name
    file.expected_bytes_ = bytes;
    PLIMSOLL_CHECK(file.open_in_place(path));
    return file;
  }
  ReplacingFile file(target_of(path));
  file.expected_bytes_ = bytes;
  PLIMSOLL_CHECK(file.open_partial());
  PLIMSOLL_CHECK(file.reserve());
  return file;
}

Result<void> ReplacingFile::open_partial() {
  std::error_code problem;
  if (fs::is_directory(target_, problem)) return fail(unwritable(EISDIR));
  constexpr int kMostTries = 100;
  constexpr mode_t kMode = 0666;  // the process's umask takes from it
  for (int i = 0; i < kMostTries && descriptor_ == -1; ++i) {
    const std::string name = fmt::format("{}.{}-{}.partial", target_.string(), getpid(), i);
    descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
    if (descriptor_ != -1) partial_ = name;
    if (descriptor_ == -1 && errno != EEXIST) break;
  }
  if (descriptor_ == -1) return fail(unwritable(errno));
  return {};
}

Result<void> ReplacingFile::open_in_place(const fs::path& path) {
  is_in_place_ = true;
  descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor_ == -1) return fail(unwritable(errno));
  return {};
}

Result<void> ReplacingFile::reserve() {
  if (expected_bytes_ == 0) return {};
  if (fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(expected_bytes_)) == 0) return {};
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR) return {};
  return fail(unwritable(errno));
}

ReplacingFile::ReplacingFile(ReplacingFile&& other) noexcept
    : target_(std::move(other.target_)),
      partial_(std::exchange(other.partial_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_in_place_(other.is_in_place_),
      expected_bytes_(other.expected_bytes_),
      written_(other.written_) {}

ReplacingFile& ReplacingFile::operator=(ReplacingFile&& other) noexcept {
  std::swap(target_, other.target_);
  std::swap(partial_, other.partial_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(is_in_place_, other.is_in_place_);
  expected_bytes_ = other.expected_bytes_;
  written_ = other.written_;
  return *this;
}

ReplacingFile::~ReplacingFile() {
  if (descriptor_ != -1) close(descriptor_);
  if (!partial_.empty()) unlink(partial_.c_str());
}

Error ReplacingFile::unwritable(int why) const {
  std::string message = fmt::format("can't be written: {}", std::strerror(why));
  if (expected_bytes_ > 0)
    message += fmt::format(" ({} of {} bytes were written)", written_, expected_bytes_);
  std::error_code problem;
  const bool has_old = !is_in_place_ && fs::exists(target_, problem);
  return {.position = {.file = target_.string()},
          .message = std::move(message),
          .expected = is_in_place_ ? "a file in a folder with enough space"
                                   : "a folder with enough space that may be written to",
          .hint = has_old ? "the file that was there is as it was" : ""};
}

Result<void> ReplacingFile::write(std::span<const std::byte> piece) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // Linux moves less than 2 GiB a call
  while (!piece.empty()) {
    const ssize_t count = ::write(descriptor_, piece.data(), std::min(kMostAtOnce, piece.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(unwritable(errno));
    written_ += static_cast<uint64_t>(count);
    piece = piece.subspan(static_cast<size_t>(count));
  }
  return {};
}

Result<void> ReplacingFile::sync() {
  struct stat old {};
  if (!is_in_place_ && stat(target_.c_str(), &old) == 0 && fchmod(descriptor_, old.st_mode & 07777) != 0)
    return fail(unwritable(errno));
  const bool is_synced = fsync(descriptor_) == 0 || (is_in_place_ && (errno == EINVAL || errno == EROFS));
  if (!is_synced) return fail(unwritable(errno));
  if (close(std::exchange(descriptor_, -1)) != 0) return fail(unwritable(errno));
  return {};
}

Result<void> ReplacingFile::take_name() {
  if (is_in_place_) return {};
  if (rename(partial_.c_str(), target_.c_str()) != 0) return fail(unwritable(errno));
  partial_.clear();
  if (const int why = sync_folder_of(target_); why != 0) return fail(unwritable(why));
  return {};
}

Result<void> ReplacingFile::commit() {
  PLIMSOLL_CHECK(sync());
  return take_name();
}

}  // namespace plimsoll
