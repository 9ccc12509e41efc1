// Writes a checkpoint (docs/checkpoints.md): every rank its own part, the folder gets its name when all of
// it is on the disk.
//
//   PLIMSOLL_CHECK(write_checkpoint(run, {.folder = "runs/step-000120", .architecture = a, ...}));
//
// Bytes go from the tensors to the files: nothing is allocated that grows with the model, and of states on
// disk one unit's at a time. Every rank calls it
// after the same step. Errors, on every rank: what the file system says, of this rank or another; weights
// that are no numbers. What was written is removed again.
#pragma once

#include <filesystem>
#include <string>

#include "model/architecture.h"
#include "runtime/communicator.h"
#include "runtime/training_run.h"
#include "train/checkpoint_state.h"

namespace plimsoll {

inline constexpr std::string_view kPartialEnding = ".partial";

struct CheckpointContent {
  std::filesystem::path folder;  // that isn't there yet; all ranks see it
  const Architecture& architecture;
  std::string model_config;                       // config.json
  CheckpointState state;                          // `ranks` is filled in
  runtime::Communicator* communicator = nullptr;  // null: one rank
};

Result<void> write_checkpoint(runtime::TrainingRun& run, const CheckpointContent& content);

// "optimizer-00001-of-00004.safetensors", of rank 0 of 4.
std::string optimizer_file(int64_t rank, int64_t ranks);

// The same result everywhere: an error where any rank has one (train/agreement.h). Null: one rank.
Result<void> agree_on(runtime::Communicator* communicator, const Result<void>& own);

// Of what is written of an array, in the optimizer files: the data's name, and of weights, too, the name
// under which the file's metadata has the CRC-32. "exp_avg:model.norm.weight:128": from element 128 on.
std::string piece_name(std::string_view array, std::string_view parameter, int64_t begin);
inline constexpr std::string_view kWeights = "weights";  // the array of a checksum of the model's file
inline constexpr std::string_view kStepKey = "step";     // in the metadata: after which step it was written

}  // namespace plimsoll
