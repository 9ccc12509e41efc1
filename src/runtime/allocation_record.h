// The trace of what LibTorch really allocated while a program ran, in the form that
// simulator/exact_trace.h predicts it: a block's stack is the op that ran and the category that the block
// was counted under. What operators take besides is a workspace.
//
//   AllocationRecord record(program);
//   allocator.set_listener(&record);
//   record.begin_phase("fwd1"); ... record.begin_op(op); ...
//   allocator.set_listener(nullptr);
//   write_torch_snapshot(record.take(), file);
//
// Thread-safe as to allocations, which other threads make too.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "program/program.h"
#include "runtime/executor.h"
#include "runtime/measured_allocator.h"
#include "trace/separate_blocks.h"

namespace plimsoll::runtime {

class AllocationRecord final : public AllocationListener, public ExecutorObserver {
 public:
  explicit AllocationRecord(const Program& program) : program_(program) {}

  void begin_phase(const std::string& name);
  void begin_op(const Op& op) override;
  void end_op() override;

  void allocated(const void* block, Bytes bytes, std::optional<Category> category) override;
  void adopted(const void* block, Category category) override;
  void freed(const void* block) override;

  AllocationTrace take();

 private:
  StackId stack(std::optional<Category> category);
  Nanoseconds now() const;

  const Program& program_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  const Op* op_ = nullptr;  // that runs
  SeparateBlocks blocks_;
};

}  // namespace plimsoll::runtime
