// Writes one safetensors file, its tensors one after the other in an order that is said beforehand, in pieces
// of any size. The file is there whole or not at all (base/replacing_file.h).
//
//   PLIMSOLL_TRY(writer, SafetensorsWriter::create("model.safetensors", {{"norm", DType::kFloat32, {4}}}));
//   PLIMSOLL_CHECK(writer.write(bytes_of_norm));
//   PLIMSOLL_CHECK(writer.finish());
//
// Errors: a name twice; "__metadata__" as a name; a negative size; a header beyond kMostHeaderBytes; what the
// file system says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/replacing_file.h"
#include "base/result.h"
#include "weights/safetensors_header.h"

namespace plimsoll {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;

  uint64_t bytes() const;  // REQUIRES a shape that check_specs() accepts
};

using SafetensorsMetadata = std::map<std::string, std::string>;
// What Transformers asks of a file of PyTorch's tensors.
inline const SafetensorsMetadata kPyTorchMetadata = {{"format", "pt"}};

// Errors as above; `file` is for them.
Result<void> check_specs(const std::vector<TensorSpec>& specs, const std::string& file);
// The tensors one after the other. REQUIRES check_specs().
SafetensorsHeader header_of(const std::vector<TensorSpec>& specs, const SafetensorsMetadata& metadata);
// The order of safetensors' own serializer: wide types first, then by name. REQUIRES check_specs().
std::vector<TensorSpec> in_reference_order(std::vector<TensorSpec> specs);

class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                          const std::vector<TensorSpec>& specs,
                                          const SafetensorsMetadata& metadata = kPyTorchMetadata);

  // The next bytes of the data. REQUIRES no more of them than the tensors have.
  Result<void> write(std::span<const std::byte> piece);
  // In two halves for several files, as in base/replacing_file.h. REQUIRES that all data was written.
  Result<void> sync();
  Result<void> take_name();
  Result<void> finish();

 private:
  SafetensorsWriter(ReplacingFile file, uint64_t data_left) : file_(std::move(file)), data_left_(data_left) {}

  ReplacingFile file_;
  uint64_t data_left_;
};

}  // namespace plimsoll
