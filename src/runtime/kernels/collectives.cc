#include <ATen/core/Tensor.h>

#include "runtime/kernels/kernel.h"

namespace plimsoll::runtime {
namespace {

void all_reduce(KernelCall& call) {
  at::Tensor t = call.input(0);
  call.start(call.communicator().all_reduce(t));
}
void all_gather(KernelCall& call) {  // whole, part
  at::Tensor whole = call.input(0), part = call.input(1);
  call.start(call.communicator().all_gather(whole, part));
}
void reduce_scatter(KernelCall& call) {  // part, whole
  at::Tensor part = call.input(0), whole = call.input(1);
  call.start(call.communicator().reduce_scatter(part, whole));
}

}  // namespace

void add_collective_kernels(SetKernel set) {
  set(OpKind::kAllReduce, {all_reduce});
  set(OpKind::kAllGather, {all_gather});
  set(OpKind::kReduceScatter, {reduce_scatter});
}

}  // namespace plimsoll::runtime
