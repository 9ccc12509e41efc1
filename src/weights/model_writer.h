// Writes a model's tensors as Transformers does: into model.safetensors, or, where they have more bytes than
// one file is to hold, into shards with an index (weights/model_weights.h).
//
//   PLIMSOLL_TRY(writer, ModelWriter::create(folder, specs, {.most_shard_bytes = 5'000'000'000}));
//   while (const TensorSpec* spec = writer.next()) PLIMSOLL_CHECK(writer.write(bytes_of(*spec)));
//   PLIMSOLL_CHECK(writer.finish());
//
// Tensors are cut into shards in the order given: a shard is closed when the next tensor would make it too
// large, and a tensor that is too large by itself has a shard of its own. Files take their names only once
// all are on the disk, the index last. The folder must hold no model yet, since several files can't be
// replaced at once: write to a new folder and rename that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "weights/safetensors_writer.h"

namespace plimsoll {

struct ModelWriterOptions {
  uint64_t most_shard_bytes = 50'000'000'000;  // of tensors; Transformers' default
  SafetensorsMetadata metadata = kPyTorchMetadata;
};

// The shard of each tensor, from 0, in the order in which they are numbered.
// Source: split_state_dict_into_shards_factory in huggingface_hub/serialization/_base.py.
std::vector<size_t> cut_into_shards(const std::vector<TensorSpec>& specs, uint64_t most_shard_bytes);

class ModelWriter {
 public:
  static Result<ModelWriter> create(const std::filesystem::path& folder, std::vector<TensorSpec> specs,
                                    const ModelWriterOptions& options = {});

  // The tensor whose bytes come next; nullptr: all were written.
  const TensorSpec* next() const { return next_ == specs_.size() ? nullptr : &specs_[next_]; }
  // Some of the next tensor's bytes. REQUIRES no more than it still lacks.
  Result<void> write(std::span<const std::byte> piece);
  // REQUIRES next() == nullptr.
  Result<void> finish();

 private:
  Result<void> open_shard(size_t shard);
  void pass_finished();
  size_t shard_count() const { return shards_.size(); }
  std::string shard_name(size_t shard) const;

  std::filesystem::path folder_;
  ModelWriterOptions options_;
  std::vector<TensorSpec> specs_;
  std::vector<size_t> shard_of_;  // by tensor
  std::vector<std::optional<SafetensorsWriter>> shards_;
  size_t next_ = 0;
  uint64_t written_of_next_ = 0;
};

}  // namespace plimsoll
