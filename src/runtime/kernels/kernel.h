// One LibTorch call for each op kind (a few of our own where ATen has none on CPUs). A kernel reads its
// inputs and writes its outputs; it keeps nothing.
//
//   void silu(KernelCall& call) { at::silu_out(call.output(0), call.input(0)); }
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "program/program.h"
#include "runtime/executor.h"

namespace plimsoll::runtime {

class KernelCall {
 public:
  KernelCall(Executor& executor, const Op& op) : executor_(executor), op_(op) {}

  const Op& op() const { return op_; }
  size_t input_count() const { return op_.input_count; }
  size_t output_count() const { return op_.output_count; }
  at::Tensor input(size_t i) { return executor_.tensor(executor_.program_->inputs(op_)[i]); }
  at::Tensor output(size_t i) { return executor_.tensor(executor_.program_->outputs(op_)[i]); }
  // Of kernels that adopt: `made`, which an operator allocated, is result i. REQUIRES the program's shape,
  // strides, dtype and bytes.
  void give(size_t i, const at::Tensor& made) { executor_.adopt(executor_.program_->outputs(op_)[i], made); }
  const TensorInfo& output_info(size_t i) const {
    return executor_.program_->tensor(executor_.program_->outputs(op_)[i]);
  }
  template <typename T>
  const T& attributes() const {
    return std::get<T>(executor_.program_->attributes_of(op_));
  }
  template <typename T>
  bool has_attributes() const {
    return std::holds_alternative<T>(executor_.program_->attributes_of(op_));
  }

  const StepSettings& step() const { return executor_.step; }
  Host& host() const { return *executor_.options_.host; }
  Communicator& communicator() const { return *executor_.options_.communicator; }
  const std::string& module_name() const { return executor_.program_->module_name(op_.module); }
  // A collective under way: its tensors' storages wait for it.
  void start(std::unique_ptr<Work> work);
  // A transfer, which runs beside the caller where the op's stream is one for transfers, after what is under
  // way on the op's tensors; else at once.
  void queue(std::function<Result<void>()> transfer);
  DiskPlace place_on_disk(size_t input) const;

  Result<void> result;  // a kernel that can fail by itself says so here

 private:
  Executor& executor_;
  const Op& op_;
};

using Kernel = void (*)(KernelCall&);
struct KernelRow {
  Kernel run = nullptr;  // null: none
  bool adopts = false;   // the operator allocates the results itself
};

// Of every kind but views, which need none.
const KernelRow& kernel_row(OpKind kind);

using SetKernel = void (*)(OpKind kind, KernelRow row);
void add_pointwise_kernels(SetKernel set);
void add_network_kernels(SetKernel set);
void add_fused_kernels(SetKernel set);
void add_optimizer_kernels(SetKernel set);
void add_adafactor_kernels(SetKernel set);
void add_collective_kernels(SetKernel set);
void add_transfer_kernels(SetKernel set);

}  // namespace plimsoll::runtime
