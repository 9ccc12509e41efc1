// One safetensors file, open for reading: its header is checked, its data stays on the disk.
//
//   PLIMSOLL_TRY(file, SafetensorsFile::open("model.safetensors"));
//   const StoredTensor* tensor = file.find("model.norm.weight");
//   PLIMSOLL_CHECK(file.read(*tensor, 0, buffer));
//
// Thread-safe once open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_file.h"
#include "base/result.h"
#include "weights/safetensors_header.h"

namespace plimsoll {

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  const std::string& name() const { return file_.name(); }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }  // in the order of the data
  const StoredTensor* find(std::string_view tensor) const;                      // nullptr: there is none

  // Fills `to` with the tensor's bytes from `first_byte` on. REQUIRES a tensor of tensors(), and a range
  // within it. Errors: base/input_file.h.
  Result<void> read(const StoredTensor& tensor, uint64_t first_byte, std::span<std::byte> to) const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header, uint64_t data_begin);

  InputFile file_;
  SafetensorsHeader header_;
  uint64_t data_begin_;
  std::vector<size_t> by_name_;  // places in header_.tensors
};

}  // namespace plimsoll
