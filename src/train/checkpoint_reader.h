// The optimizer's states in a checkpoint, as whoever wrote it divided them among its ranks: any part of any
// parameter's can be read.
//
//   PLIMSOLL_TRY(reader, CheckpointReader::open(folder, state, expected));
//   PLIMSOLL_CHECK(reader.check_sums(rank, ranks));
//   PLIMSOLL_CHECK(reader.read("exp_avg", "model.norm.weight", begin, to));
//
// Errors, with the file: what is missing or cut, or was written after another step; tensors that aren't
// pieces of the model's parameters, or that leave elements out; data whose checksum isn't the one that was
// saved, or that has none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint_state.h"
#include "weights/model_weights.h"
#include "weights/safetensors_file.h"

namespace plimsoll {

// A state of a parameter, or as kWeights (train/checkpoint_writer.h) the checksums of its weights.
struct SavedArray {
  std::string state, parameter;
  int64_t elements = 0;
};

class CheckpointReader {
 public:
  // Every element of what is expected is there once.
  static Result<CheckpointReader> open(const std::filesystem::path& folder, const CheckpointState& state,
                                       const std::vector<SavedArray>& expected);

  // Reads what falls to this rank of all that was saved, weights and states, and compares checksums.
  Result<void> check_sums(int64_t rank, int64_t ranks) const;
  // Elements of a parameter's state from `begin` on. REQUIRES a state and a range that are there.
  Result<void> read(const std::string& array, const std::string& parameter, int64_t begin,
                    std::span<float> to) const;

 private:
  struct Stored {
    int64_t begin = 0, elements = 0;
    size_t file = 0;
    const StoredTensor* tensor = nullptr;  // null: the checksum of weights, which are in the model's file
  };
  using Array = std::pair<std::string, std::string>;  // state, parameter

  Result<void> add_file(const std::filesystem::path& path, const CheckpointState& state);
  Result<void> add_weights(size_t file);
  Result<void> check_cover(const SavedArray& array) const;
  Result<void> check_states_of(const SafetensorsFile& file) const;
  Result<void> check_weights_of(const SafetensorsFile& file, const std::string& name,
                                const std::string& sum) const;

  std::vector<SafetensorsFile> files_;
  std::map<Array, std::vector<Stored>> stored_;  // by begin
  std::vector<ModelWeights> model_;              // one; a vector since it can't be made empty
};

}  // namespace plimsoll
