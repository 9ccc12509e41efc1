// A job's checkpoints (docs/checkpoints.md): which one it goes on from, when the next is written, which are
// kept.
//
//   PLIMSOLL_TRY(checkpoints, Checkpoints::open({.job = job, .architecture = a, ...}));
//   ModelWeights::open(checkpoints.weights())      // of the run's load(), where resumes()
//   PLIMSOLL_CHECK(checkpoints.restore(run, batches));         // after load()
//   PLIMSOLL_CHECK(checkpoints.after_step(run, batches, loss));
//
// Every rank does the same, and finds the checkpoint itself: ranks compare found_text(), since a network file
// system may show a machine an old list of the folder. Without train.checkpoints nothing is read or written.
// Errors: a checkpoint of another model, optimizer, seed or data; one that isn't whole; checkpoints that are
// there while train.resume is false.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "runtime/training_run.h"
#include "strategy/job.h"
#include "train/batches.h"
#include "train/checkpoint_state.h"

namespace plimsoll {

struct CheckpointsOptions {
  const ResolvedJob& job;
  const Architecture& architecture;
  std::string model_config;                       // train/model_config.h
  std::string job_text;                           // the job as a job file
  runtime::Communicator* communicator = nullptr;  // null: one rank
};

class Checkpoints {
 public:
  static constexpr size_t kKept = 2;  // the newest so many; older ones are removed

  // REQUIRES job and architecture outlive it. Every rank sees the folder.
  static Result<Checkpoints> open(CheckpointsOptions options);

  bool resumes() const { return from_.has_value(); }
  const std::filesystem::path& weights() const { return from_->folder; }  // REQUIRES resumes()
  // The one written last, or gone on from; empty: none.
  const std::filesystem::path& last() const { return last_; }
  const std::string& model_config() const { return options_.model_config; }
  // Which checkpoint the run goes on from, for ranks to compare; "none".
  std::string found_text() const;
  bool is_save_wrong() const { return is_save_wrong_; }  // the error that every rank has after the same step
  // What a resumed run has other than the one that was saved, and does no harm.
  const std::vector<std::string>& notes() const { return notes_; }

  // Before the first step. Error: the folder can't be made or written to, and a checkpoint will be.
  Result<void> prepare_folder() const;
  // The states, the step and the data's position. Does nothing for a run that doesn't resume. REQUIRES
  // run.load() was called, with weights().
  Result<void> restore(runtime::TrainingRun& run, Batches& batches);
  // Writes a checkpoint where one is due. `loss` is the step's.
  Result<void> after_step(runtime::TrainingRun& run, const Batches& batches, double loss);

 private:
  struct Saved {
    std::filesystem::path folder;
    CheckpointState state;
  };
  explicit Checkpoints(CheckpointsOptions options);

  Result<void> check_saved();
  void note_settings(const CheckpointState& state);
  Result<void> check_data(const Batches& batches);
  Result<void> restore_states(runtime::TrainingRun& run);
  Result<void> save(runtime::TrainingRun& run, const Batches& batches, double loss);
  Result<void> remove_old() const;
  int64_t rank() const { return options_.communicator ? options_.communicator->rank() : 0; }
  int64_t ranks() const { return options_.communicator ? options_.communicator->size() : 1; }

  CheckpointsOptions options_;
  std::filesystem::path folder_;  // empty: none
  std::optional<Saved> from_;
  std::filesystem::path last_;
  std::vector<std::string> notes_;
  bool is_save_wrong_ = false;
};

// "step-000120"
std::string checkpoint_name(int64_t step);
// Whole checkpoints of a folder, the oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

}  // namespace plimsoll
