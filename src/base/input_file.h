// A file of numbers or text that is read at any offset while others may still have it: it must stay what it
// was when it was opened.
//
//   PLIMSOLL_TRY(file, InputFile::open("model.safetensors", "a safetensors file"));
//   PLIMSOLL_CHECK(file.read(offset, buffer));
//
// Errors: what is no regular file; a range that the file doesn't hold; a file that was cut, grew or was
// written to since it was opened (its size or its time of change differ). A file that another took the name
// of is still read, since the descriptor holds it. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace plimsoll {

// What tells that a file is the one it was.
struct FileStamp {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t changed_seconds = 0, changed_nanoseconds = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

class InputFile {
 public:
  // `expected` says what the file should be, for the errors.
  static Result<InputFile> open(const std::filesystem::path& path, std::string expected);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& name() const { return name_; }
  uint64_t size() const { return stamp_.size; }
  const FileStamp& stamp() const { return stamp_; }

  // Fills `to` with the bytes from `offset` on.
  Result<void> read(uint64_t offset, std::span<std::byte> to) const;

 private:
  InputFile(int descriptor, std::string name, std::string expected, const FileStamp& stamp);
  Result<void> check_unchanged() const;
  Error wrong(std::string message) const;

  int descriptor_ = -1;
  std::string name_, expected_;
  FileStamp stamp_;
};

}  // namespace plimsoll
