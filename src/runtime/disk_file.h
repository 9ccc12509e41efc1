// The file of the program's disk tier: one of its own for each rank's run, of fixed size, which nobody else
// sees and which is gone when the run is, however it ends (it has no name from the beginning).
//
//   PLIMSOLL_TRY(file, DiskFile::create("/nvme/run", Bytes{1 << 30}));
//   PLIMSOLL_CHECK(file.write(0, bytes));   // from any thread
//
// Reads and writes go past the page cache (O_DIRECT) where the file system allows it; what it says otherwise
// is a note. Errors of create(), before anything runs: a folder that is missing or can't be written to, less
// free space than the file takes, which is reserved. Errors of read() and write(): what the system says; a
// file that ends early.
// REQUIRES offsets, sizes and addresses that are multiples of kDiskAlignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace plimsoll::runtime {

class DiskFile {
 public:
  static Result<DiskFile> create(const std::filesystem::path& folder, Bytes bytes);
  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&&) = delete;
  ~DiskFile();

  Result<void> read(int64_t offset, std::span<std::byte> to) const;
  Result<void> write(int64_t offset, std::span<const std::byte> from) const;

  bool is_direct() const { return is_direct_; }
  const std::vector<std::string>& notes() const { return notes_; }
  int descriptor() const { return descriptor_; }

 private:
  DiskFile(std::filesystem::path folder, int descriptor)
      : folder_(std::move(folder)), descriptor_(descriptor) {}
  Result<void> open_directly();
  Result<void> reserve(Bytes bytes);
  Result<void> check_space(Bytes bytes) const;
  tl::unexpected<Error> failed(std::string_view what, int problem) const;

  std::filesystem::path folder_;
  int descriptor_ = -1;
  bool is_direct_ = false;
  std::vector<std::string> notes_;
};

}  // namespace plimsoll::runtime
