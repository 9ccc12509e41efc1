#include "train/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/replacing_file.h"

namespace plimsoll {

namespace fs = std::filesystem;

tl::unexpected<Error> unwritable_folder(const fs::path& path, const std::string& why) {
  return fail({.position = {.file = path.string()},
               .message = fmt::format("can't be written: {}", why),
               .expected = "a folder with enough space that may be written to"});
}

Result<void> sync_folder(const fs::path& folder) {
  if (const int why = sync_to_disk(folder); why != 0) return unwritable_folder(folder, std::strerror(why));
  return {};
}

Result<void> make_synced_folder(const fs::path& folder) {
  std::error_code problem;
  if (fs::is_directory(folder, problem)) return {};
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  if (parent != folder) PLIMSOLL_CHECK(make_synced_folder(parent));
  fs::create_directory(folder, problem);
  if (problem) return unwritable_folder(folder, problem.message());
  return sync_folder(parent);
}

Result<void> check_is_writable(const fs::path& folder, int64_t rank) {
  PLIMSOLL_CHECK(make_synced_folder(folder));
  const fs::path file = folder / fmt::format("rank-{}.partial", rank);
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) return unwritable_folder(folder, std::strerror(errno));
  close(descriptor);
  if (unlink(file.c_str()) != 0) return unwritable_folder(folder, std::strerror(errno));
  return {};
}

}  // namespace plimsoll
