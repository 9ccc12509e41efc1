// The tensors of a model by name, in one safetensors file or in several with an index, as Transformers saves
// them:
//
//   model.safetensors                      or   model.safetensors.index.json
//                                               model-00001-of-00002.safetensors
//                                               model-00002-of-00002.safetensors
//
//   PLIMSOLL_TRY(weights, ModelWeights::open("Qwen3-0.6B"));
//   const ModelTensor* tensor = weights.find("model.norm.weight");
//   PLIMSOLL_CHECK(weights.read(*tensor, 0, buffer));
//
// The path is the folder (model.safetensors goes before the index, as in Transformers), a .safetensors file
// or an index. Index and shards must name the same tensors, each in one shard. Thread-safe once open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/safetensors_file.h"

namespace plimsoll {

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kModelIndexFile = "model.safetensors.index.json";

struct ModelTensor {
  StoredTensor stored;
  size_t shard = 0;
};

class ModelWeights {
 public:
  static Result<ModelWeights> open(const std::filesystem::path& path);

  const std::string& name() const { return name_; }                     // the path that was opened
  const std::vector<ModelTensor>& tensors() const { return tensors_; }  // by name
  const ModelTensor* find(std::string_view name) const;                 // nullptr: there is none
  const std::string& file_of(const ModelTensor& tensor) const { return shards_[tensor.shard].name(); }
  uint64_t bytes() const;  // of all tensors
  // What is odd and does no harm: an index with another total size than the tensors have.
  const std::vector<std::string>& notes() const { return notes_; }

  // As SafetensorsFile::read().
  Result<void> read(const ModelTensor& tensor, uint64_t first_byte, std::span<std::byte> to) const;

 private:
  static Result<ModelWeights> open_file(const std::filesystem::path& path);
  static Result<ModelWeights> open_index(const std::filesystem::path& path);
  void add_shard(SafetensorsFile file);
  void sort();

  std::string name_;
  std::vector<SafetensorsFile> shards_;
  std::vector<ModelTensor> tensors_;
  std::vector<std::string> notes_;
};

}  // namespace plimsoll
