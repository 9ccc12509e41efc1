#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/threshold_backward.h>

#include "runtime/kernels/kernel.h"

namespace plimsoll::runtime {
namespace {

void nothing(KernelCall&) {}
void zeros(KernelCall& call) { call.output(0).zero_(); }
void ones(KernelCall& call) { call.output(0).fill_(1); }
void copy(KernelCall& call) { call.output(0).copy_(call.input(0)); }
void add(KernelCall& call) {
  at::Tensor out = call.output(0);
  at::add_out(out, call.input(0), call.input(1));
}
void add_in_place(KernelCall& call) { call.input(0).add_(call.input(1)); }

void cat(KernelCall& call) {
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < call.input_count(); ++i) parts.push_back(call.input(i));
  at::Tensor out = call.output(0);
  at::cat_out(out, parts, std::countr_zero(call.attributes<DimAttr>().mask));
}

void sum(KernelCall& call) {
  const DimAttr& a = call.attributes<DimAttr>();
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < call.input(0).dim(); ++d)
    if ((a.mask >> static_cast<unsigned>(d)) & 1U) dims.push_back(d);
  at::Tensor out = call.output(0);
  at::sum_out(out, call.input(0), dims, a.keep_dims);
}

// Zeros with the gradient in the slice that was read.
void slice_backward(KernelCall& call) {
  const SliceAttr& a = call.attributes<SliceAttr>();
  const at::Tensor gradient = call.input(0);
  at::Tensor out = call.output(0);
  out.zero_();
  out.slice(a.dim, a.start, a.start + gradient.size(a.dim) * a.step, a.step).copy_(gradient);
}

void swiglu(KernelCall& call) {
  at::Tensor out = call.output(0);
  at::silu_out(out, call.input(0));
  out.mul_(call.input(1));
}
void swiglu_backward(KernelCall& call) {  // gradient, gate, up -> of gate, of up
  const at::Tensor gradient = call.input(0), gate = call.input(1), up = call.input(2);
  at::Tensor of_gate = call.output(0), of_up = call.output(1);
  at::mul_out(of_gate, gradient, up);
  at::silu_backward_out(of_gate, of_gate, gate);
  at::silu_out(of_up, gate);
  of_up.mul_(gradient);
}

template <bool kIsTanh>
void gelu(KernelCall& call) {
  at::Tensor out = call.output(0);
  at::gelu_out(out, call.input(0), kIsTanh ? "tanh" : "none");
}
template <bool kIsTanh>
void gelu_backward(KernelCall& call) {
  at::Tensor out = call.output(0);
  at::gelu_backward_out(out, call.input(0), call.input(1), kIsTanh ? "tanh" : "none");
}
void relu(KernelCall& call) { call.output(0).copy_(call.input(0)).relu_(); }
void threshold_backward(KernelCall& call) {
  at::Tensor out = call.output(0);
  at::threshold_backward_out(out, call.input(0), call.input(1), 0);
}

}  // namespace

void add_pointwise_kernels(SetKernel set) {
  set(OpKind::kEmpty, {nothing});
  set(OpKind::kEmptyLike, {nothing});
  set(OpKind::kResize, {nothing});
  set(OpKind::kZeros, {zeros});
  set(OpKind::kOnesLike, {ones});
  set(OpKind::kClone, {copy});
  set(OpKind::kCast, {copy});
  set(OpKind::kAdd, {add});
  set(OpKind::kAddInPlace, {add_in_place});
  set(OpKind::kCat, {cat});
  set(OpKind::kSum, {sum});
  set(OpKind::kSliceBackward, {slice_backward});
  set(OpKind::kSwiglu, {swiglu});
  set(OpKind::kSwigluBackward, {swiglu_backward});
  set(OpKind::kGelu, {gelu<false>});
  set(OpKind::kGeluBackward, {gelu_backward<false>});
  set(OpKind::kGeluTanh, {gelu<true>});
  set(OpKind::kGeluTanhBackward, {gelu_backward<true>});
  set(OpKind::kRelu, {relu});
  set(OpKind::kThresholdBackward, {threshold_backward});
}

}  // namespace plimsoll::runtime
