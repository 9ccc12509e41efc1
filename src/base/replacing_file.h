// A file that is written whole or not at all. Its bytes go to a file of its own in the same folder, which
// takes the name when all of them are on the disk; until then what had the name keeps it, also when the disk
// fills up or the process is killed.
//
//   PLIMSOLL_TRY(file, ReplacingFile::create("model.safetensors", bytes));
//   PLIMSOLL_CHECK(file.write(piece));
//   PLIMSOLL_CHECK(file.commit());
//
// A link is followed: what it leads to is replaced, not the link. Without commit() the bytes are removed
// again; a process that is killed leaves them as <name>.<pid>-<n>.partial. What is there and no regular file,
// such as a device or a pipe, is written to as it is: a file in its place would take it from everybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace plimsoll {

// The names in a folder. Returns 0, or why not.
int sync_to_disk(const std::filesystem::path& folder);

class ReplacingFile {
 public:
  // Takes the space of `bytes`, where the file system can, so that a full disk is an error now and not at the
  // end.
  static Result<ReplacingFile> create(const std::filesystem::path& path, uint64_t bytes);
  ReplacingFile(ReplacingFile&& other) noexcept;
  ReplacingFile& operator=(ReplacingFile&& other) noexcept;
  ~ReplacingFile();

  Result<void> write(std::span<const std::byte> piece);
  uint64_t written() const { return written_; }

  // The two halves of commit(), for several files that are to appear together: the first may fail for want of
  // space, the second hardly. REQUIRES sync() before take_name().
  Result<void> sync();
  Result<void> take_name();
  Result<void> commit();

 private:
  explicit ReplacingFile(std::filesystem::path target) : target_(std::move(target)) {}
  Result<void> open_partial();
  Result<void> open_in_place(const std::filesystem::path& path);
  Result<void> reserve();
  Error unwritable(int why) const;

  std::filesystem::path target_;
  std::string partial_;  // empty: nothing to remove
  int descriptor_ = -1;
  bool is_in_place_ = false;  // no regular file
  uint64_t expected_bytes_ = 0, written_ = 0;
};

}  // namespace plimsoll
