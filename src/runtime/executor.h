// Plays a complete program on LibTorch: an op allocates the storages of its results, runs one kernel, and a
// `free` gives a storage back. Nothing is decided here: what is computed, gathered, reduced and freed when,
// is the program's. No autograd.
//
//   PLIMSOLL_TRY(executor, Executor::make(training.program, {.allocator = &allocator, .host = &host}));
//   PLIMSOLL_CHECK(executor.play(training.load));
//   executor.tensor(training.ids).copy_(batch);
//
// Collectives and transfers between tiers run beside computation, those of one stream one after another:
// whoever reads, writes or frees a storage waits for what is under way on it. Storages of the tier kGpu come
// from the tensor allocator, those of host tiers from host_memory.h, those on disk are parts of one file.
// Not thread-safe. Errors: an op without a kernel, by name, before anything runs; what fails in an op,
// exceptions included, with the op and its module; memory that isn't there, with category and bytes; a rank
// that is gone, before the next op.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/program.h"
#include "runtime/communication/work_queue.h"
#include "runtime/communicator.h"
#include "runtime/disk_file.h"
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
  // check_norm: the sum of squares of all gradients, the same on every rank. An error ends the step before it
  // has changed weights or states.
  virtual Result<void> check_norm(double squared) = 0;
};

struct ExecutorOptions {
  MeasuredAllocator* allocator = nullptr;
  Host* host = nullptr;
  Communicator* communicator = nullptr;  // null: one rank
  std::filesystem::path disk_folder;     // of the disk tier's file
};

// Is told what the executor does as it does it.
class ExecutorObserver {
 public:
  virtual ~ExecutorObserver() = default;
  virtual void begin_op(const Op& op) = 0;  // before its allocations
  virtual void end_op() = 0;
};

struct DiskPlace {
  const DiskFile* file = nullptr;
  int64_t offset = 0;
};

// Of the whole storage, padding included.
std::span<std::byte> all_bytes_of(const at::Tensor& t);

class Executor {
 public:
  static Result<Executor> make(const Program& program, const ExecutorOptions& options);

  Result<void> play(uint32_t section);
  // Collectives may be under way on it after play() returns: finish() first. REQUIRES its storage is live,
  // and not on disk.
  at::Tensor tensor(TensorId id);
  Result<void> finish();  // waits for everything under way
  // The tensor itself, or where it is on disk a copy, which save() writes back.
  Result<at::Tensor> load(TensorId id);
  Result<void> save(TensorId id, const at::Tensor& copy);
  const Program& program() const { return *program_; }
  const std::vector<std::string>& notes() const;  // of the disk's file

  ExecutorObserver* observer = nullptr;
  StepSettings step;                 // of the next optimizer section
  double communication_seconds = 0;  // waited for collectives, so far
  double recompute_seconds = 0;      // in kernels that compute again what forward had, so far
  double io_seconds = 0;             // and for copies between tiers, reads and writes

 private:
  friend class KernelCall;
  Executor(const Program& program, const ExecutorOptions& options);

  // What is under way on a storage: the last that was asked for, which follows those before.
  struct Pending {
    std::shared_ptr<Work> work;
    bool is_transfer = false;
  };

  void find_views();
  void start_queues();
  Result<void> open_disk();
  bool is_on_disk(StorageId id) const { return program_->storage(id).tier == Tier::kDisk; }
  WorkQueue* queue_of(Stream stream) const { return queues_.at(static_cast<size_t>(stream)).get(); }
  Result<void> check_ranks() const;
  Result<void> play_op(const Op& op);
  Result<void> run_kernel(const Op& op);  // throws what LibTorch throws
  void allocate(TensorId id);
  void adopt(TensorId id, const at::Tensor& made);
  Result<void> free(StorageId id);
  Result<void> wait_for(StorageId id);

  const Program* program_;
  ExecutorOptions options_;
  std::vector<int64_t> offsets_;              // by tensor: elements from its storage's beginning
  std::vector<std::vector<TensorId>> users_;  // by storage: tensors made of it
  std::vector<c10::Storage> storages_;        // by storage; undefined: not live
  std::vector<at::Tensor> tensors_;           // by tensor, made when first asked for
  std::vector<Pending> pending_;              // by storage
  std::vector<int64_t> disk_offsets_;         // by storage, of those on disk
  std::unique_ptr<DiskFile> disk_;            // null: nothing is on disk
  std::vector<std::unique_ptr<MeasuredAllocator::Elsewhere>> on_disk_;  // by storage, of live ones
  std::array<std::unique_ptr<WorkQueue>, kStreamCount> queues_;         // of streams for transfers; end first
};

}  // namespace plimsoll::runtime
