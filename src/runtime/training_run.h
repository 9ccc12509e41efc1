// A training run of one rank: the job's program, played step by step, with what was predicted of its memory
// held against what was measured.
//
//   PLIMSOLL_TRY(run, TrainingRun::make({.architecture = a, .job = job, .weights = fresh_weights(a, 1)}));
//   PLIMSOLL_CHECK(run->load());
//   PLIMSOLL_TRY(step, run->step(batches));        // batches: std::function that fills ids and labels
//   run->memory();                                 // by phase: predicted and measured bytes by category
//
// Not thread-safe; one in a process, since the tensor allocator is (measured_allocator.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/native/training.h"
#include "runtime/allocation_record.h"
#include "runtime/executor.h"
#include "runtime/model_host.h"
#include "simulator/exact_peaks.h"

namespace plimsoll::runtime {

// Fills the next tokens, int64 [micro_batch, sequence] each, of micro-batch `m` of optimizer step `step`
// (both count from 0).
using BatchSource = std::function<Result<void>(int64_t step, int64_t m, at::Tensor& ids, at::Tensor& labels)>;

struct TrainingRunOptions {
  const Architecture& architecture;
  const ResolvedJob& job;
  WeightSource weights;
  Communicator* communicator = nullptr;  // null: one rank
};

struct StepReport {
  int64_t step = 0;          // from 1
  double loss = 0;           // mean over the global batch's tokens
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  double seconds = 0;
  double communication_seconds = 0;       // of them waiting for other ranks
  double collective_seconds = 0;          // what collectives took, most of it beside computation
  double io_seconds = 0;                  // waiting for copies between tiers, reads and writes
  double recompute_seconds = 0;           // computing again what forward had
  std::optional<double> evaluation_loss;  // after the step, when it was evaluated
};

// A phase of the program as predicted, and as it was measured when it was played first.
struct PhaseMemoryReport {
  std::string phase;  // "load", "fwd1", "bwd2", ...
  ExactPeak predicted;
  MeasuredBytes measured;
  Bytes scratch_peak;           // what operators took besides
  int64_t times = 0;            // played
  int64_t times_different = 0;  // of them with another measured peak than predicted, in any category
};

class TrainingRun {
 public:
  static Result<std::unique_ptr<TrainingRun>> make(const TrainingRunOptions& options);

  Result<void> load();
  // Errors: a loss or a gradient norm that is no number, before anything is updated; what the executor says.
  Result<StepReport> step(const BatchSource& batches);
  // The mean loss over so many steps' batches, without gradients. Errors: as step(). REQUIRES
  // training().evaluation.
  Result<double> evaluate(const BatchSource& batches, int64_t steps);
  int64_t steps_done() const { return steps_done_; }
  // A loss or a norm was no number: the error that every rank has in the same step.
  bool is_loss_wrong() const { return is_loss_wrong_; }
  void set_steps_done(int64_t steps) { steps_done_ = steps; }  // after a checkpoint was read

  // From now on through the end of the second step what is allocated is recorded. REQUIRES before load().
  void start_recording();
  struct Recording {
    AllocationTrace predicted, measured;  // of the same phases
  };
  bool is_recording() const { return steps_to_record_ > 0; }
  Recording take_recording();  // what there is. REQUIRES start_recording()

  // Called between the last backward of a step and the optimizer, where gradients are whole.
  std::function<Result<void>()> after_backward;

  Executor& executor() { return *executor_; }
  const native::Training& training() const { return training_; }
  const std::vector<PhaseMemoryReport>& memory() const { return memory_; }
  // What the model takes of a step of all ranks, whatever is computed again (program/op_flops.h).
  Flops flops_per_step() const;
  std::vector<std::string> notes() const;  // of the program, the disk and the communicator
  Bytes predicted_memory() const;          // of device and host together, in the phase that takes the most

 private:
  TrainingRun(const TrainingRunOptions& options, native::Training training);

  void listen(AllocationRecord* record);  // null: not any more
  Result<void> play(const std::string& phase, uint32_t section);
  Result<double> mean_loss(double own);
  Result<void> update(StepReport& report, const std::string& phase);
  Result<void> check_number(const std::string& what, int64_t step, double value);
  double seconds_under_way() const;

  const Architecture& a_;
  const ResolvedJob& job_;
  Communicator* communicator_;
  native::Training training_;
  MeasuredAllocator& allocator_;
  ModelHost host_;
  std::unique_ptr<Executor> executor_;
  std::vector<PhaseMemoryReport> memory_;
  std::unique_ptr<AllocationRecord> record_;
  std::vector<PhaseStep> recorded_;  // phases
  int64_t steps_to_record_ = 0;
  int64_t steps_done_ = 0;
  bool is_loss_wrong_ = false;
};

}  // namespace plimsoll::runtime
