#include "runtime/disk_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/host_memory.h"

namespace plimsoll::runtime {
namespace {

constexpr std::string_view kField = "offload.directory";

tl::unexpected<Error> unusable(const std::filesystem::path& folder, int problem) {
  return fail({.position = {.file = folder.string(), .key = std::string(kField)},
               .message = fmt::format("no file can be made there: {}", std::strerror(problem)),
               .expected = "a folder that exists and may be written to"});
}

// Errors of reserving that say that the file system doesn't know how; the space was checked before.
bool cannot_reserve(int problem) { return problem == EOPNOTSUPP || problem == ENOSYS; }

}  // namespace

DiskFile::DiskFile(DiskFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_direct_(other.is_direct_),
      notes_(std::move(other.notes_)) {}

DiskFile::~DiskFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

// The file loses its name at once, so that it goes with the process.
Result<DiskFile> DiskFile::create(const std::filesystem::path& folder, Bytes bytes) {
  std::string name = (folder / "plimsoll-offload-XXXXXX").string();
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return unusable(folder, errno);
  DiskFile file(folder, descriptor);
  const int removed = unlink(name.c_str());
  if (removed != 0) return unusable(folder, errno);
  PLIMSOLL_CHECK(file.check_space(bytes));
  PLIMSOLL_CHECK(file.reserve(bytes));
  PLIMSOLL_CHECK(file.open_directly());
  return file;
}

tl::unexpected<Error> DiskFile::failed(std::string_view what, int problem) const {
  return fail({.position = {.file = folder_.string(), .key = std::string(kField)},
               .message = fmt::format("the disk tier's file can't be {}: {}", what, std::strerror(problem))});
}

Result<void> DiskFile::check_space(Bytes bytes) const {
  struct statvfs space {};
  if (fstatvfs(descriptor_, &space) != 0) return failed("asked for its file system", errno);
  const Bytes available{static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize)};
  if (available >= bytes) return {};
  return fail({.position = {.file = folder_.string(), .key = std::string(kField)},
               .message = fmt::format("{} are free, a rank's masters and optimizer states take {}",
                                      to_text(available), to_text(bytes)),
               .expected = "a folder on a disk with room for all its ranks"});
}

// Also where other ranks have seen the same free space: what is reserved isn't free.
Result<void> DiskFile::reserve(Bytes bytes) {
  if (bytes == Bytes{}) return {};
  if (fallocate(descriptor_, 0, 0, bytes.value) == 0) return {};
  if (!cannot_reserve(errno)) return failed(fmt::format("given {}", to_text(bytes)), errno);
  if (ftruncate(descriptor_, bytes.value) != 0) return failed(fmt::format("given {}", to_text(bytes)), errno);
  notes_.push_back(fmt::format("{}: {} reserves no space for a file", kField, folder_.string()));
  return {};
}

// Whether a file system takes direct requests shows with the first, at some already with the flag.
Result<void> DiskFile::open_directly() {
  const int flags = fcntl(descriptor_, F_GETFL);
  void* block = nullptr;
  if (posix_memalign(&block, kHostAlignment, kHostAlignment) != 0) return failed("read", ENOMEM);
  const std::unique_ptr<void, decltype(&std::free)> holder(block, &std::free);
  is_direct_ =
      fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0 && pread(descriptor_, block, kHostAlignment, 0) >= 0;
  if (is_direct_) return {};
  if (errno != EINVAL) return failed("read", errno);
  if (fcntl(descriptor_, F_SETFL, flags) != 0) return failed("read through the page cache", errno);
  notes_.push_back(fmt::format("{}: {} takes no direct requests (O_DIRECT: {}), the page cache lies between",
                               kField, folder_.string(), std::strerror(EINVAL)));
  return {};
}

Result<void> DiskFile::read(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(descriptor_, to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", errno);
    if (got == 0)
      return fail({.position = {.file = folder_.string(), .key = std::string(kField)},
                   .message = fmt::format("the disk tier's file ends before byte {}", offset + 1),
                   .expected = "a file that nobody else changes"});
    offset += got;
    to = to.subspan(static_cast<size_t>(got));
  }
  return {};
}

Result<void> DiskFile::write(int64_t offset, std::span<const std::byte> from) const {
  while (!from.empty()) {
    const ssize_t put = pwrite(descriptor_, from.data(), from.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed("written", errno);
    offset += put;
    from = from.subspan(static_cast<size_t>(put));
  }
  return {};
}

}  // namespace plimsoll::runtime
