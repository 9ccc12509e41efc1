// A model's safetensors files (weights/model_weights.h) that several processes fill together, each with the
// ranges that it holds. One of them lays the files out, headers and space; then all write where they like.
//
//   PLIMSOLL_TRY(writer, SharedModelWriter::lay_out(folder, specs));     // one process
//   PLIMSOLL_TRY(writer, SharedModelWriter::join(folder, specs));        // the others, afterwards
//   PLIMSOLL_CHECK(writer.write(tensor, first_byte, piece));             // tensor: index into specs
//   PLIMSOLL_CHECK(writer.sync());
//
// The files have their names from the beginning, so the folder is to be one that nobody takes for whole yet.
// REQUIRES the same specs everywhere, and that no byte is written by two processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "weights/safetensors_writer.h"

namespace plimsoll {

class SharedModelWriter {
 public:
  // Tensors are cut into shards as Transformers does (weights/model_writer.h).
  static constexpr uint64_t kMostShardBytes = 50'000'000'000;

  static Result<SharedModelWriter> lay_out(const std::filesystem::path& folder,
                                           const std::vector<TensorSpec>& specs,
                                           uint64_t most_shard_bytes = kMostShardBytes);
  static Result<SharedModelWriter> join(const std::filesystem::path& folder,
                                        const std::vector<TensorSpec>& specs,
                                        uint64_t most_shard_bytes = kMostShardBytes);
  SharedModelWriter(SharedModelWriter&& other) noexcept = default;
  SharedModelWriter& operator=(SharedModelWriter&& other) noexcept;
  ~SharedModelWriter();

  // REQUIRES a range within the tensor.
  Result<void> write(size_t tensor, uint64_t first_byte, std::span<const std::byte> piece);
  Result<void> sync();

 private:
  struct File {
    std::string name;
    int descriptor = -1;
  };
  struct Place {
    size_t file = 0;
    uint64_t begin = 0, bytes = 0;  // in the file
  };
  SharedModelWriter() = default;
  static Result<SharedModelWriter> make(const std::filesystem::path& folder,
                                        const std::vector<TensorSpec>& specs, uint64_t most_shard_bytes,
                                        bool is_new);
  Result<void> open_shard(const std::filesystem::path& path, const std::vector<TensorSpec>& specs,
                          bool is_new);
  Result<void> write_at(const File& file, uint64_t offset, std::span<const std::byte> piece);

  std::vector<File> files_;
  std::vector<Place> places_;  // by tensor
};

}  // namespace plimsoll
