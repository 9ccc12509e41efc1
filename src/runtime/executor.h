// Plays a complete program on LibTorch: an op allocates the storages of its results, runs one kernel, and a
// `free` gives a storage back. Nothing is decided here: what is computed, gathered, reduced and freed when,
// is the program's. No autograd.
//
//   PLIMSOLL_TRY(executor, Executor::make(training.program, {.allocator = &allocator, .host = &host}));
//   PLIMSOLL_CHECK(executor.play(training.load));
//   executor.tensor(training.ids).copy_(batch);
//
// Collectives run beside computation: whoever reads, writes or frees a storage waits for those under way on
// it. Not thread-safe. Errors: an op without a kernel, by name, before anything runs; a kernel that fails.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/program.h"
#include "runtime/communicator.h"
#include "runtime/measured_allocator.h"
#include "runtime/step_settings.h"

namespace plimsoll::runtime {

// What a program leaves to whoever runs it.
class Host {
 public:
  virtual ~Host() = default;
  // load_weights: fills `whole`, fp32 [elements], of which `parts` are the views in the parameters' shapes,
  // in the order of the unit named `unit`.
  virtual Result<void> load_weights(const std::string& unit, at::Tensor& whole,
                                    std::span<at::Tensor> parts) = 0;
  // rotary_table: fp32 [sequence, rotary_dim / 2] each.
  virtual Result<void> fill_rotary_table(at::Tensor& cos, at::Tensor& sin) = 0;
};

struct ExecutorOptions {
  MeasuredAllocator* allocator = nullptr;
  Host* host = nullptr;
  Communicator* communicator = nullptr;  // null: one rank
};

// Is told what the executor does as it does it.
class ExecutorObserver {
 public:
  virtual ~ExecutorObserver() = default;
  virtual void begin_op(const Op& op) = 0;  // before its allocations
  virtual void end_op() = 0;
};

class Executor {
 public:
  static Result<Executor> make(const Program& program, const ExecutorOptions& options);

  Result<void> play(uint32_t section);
  // Collectives may be under way on it after play() returns: finish() first. REQUIRES its storage is live.
  at::Tensor tensor(TensorId id);
  Result<void> finish();  // waits for every collective under way
  const Program& program() const { return *program_; }

  ExecutorObserver* observer = nullptr;
  StepSettings step;                 // of the next optimizer section
  double communication_seconds = 0;  // waited for collectives, so far
  double recompute_seconds = 0;      // in kernels that compute again what forward had, so far

 private:
  friend class KernelCall;
  Executor(const Program& program, const ExecutorOptions& options);

  void find_views();
  Result<void> play_op(const Op& op);
  void allocate(TensorId id);
  void adopt(TensorId id, const at::Tensor& made);
  Result<void> free(StorageId id);
  Result<void> wait_for(StorageId id);

  const Program* program_;
  ExecutorOptions options_;
  std::vector<int64_t> offsets_;                // by tensor: elements from its storage's beginning
  std::vector<std::vector<TensorId>> users_;    // by storage: tensors made of it
  std::vector<c10::Storage> storages_;          // by storage; undefined: not live
  std::vector<at::Tensor> tensors_;             // by tensor, made when first asked for
  std::vector<std::shared_ptr<Work>> pending_;  // by storage: the last collective on it
};

}  // namespace plimsoll::runtime
