// Liger's fused linear cross-entropy: no logits but those of one chunk of tokens; both gradients are ready
// when the forward ends. Source: liger_kernel/ops/fused_linear_cross_entropy.py (reduction "mean",
// accum_dtype None), transformers/model/loss_utils.py (LigerForCausalLMLoss).
#include <bit>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

int64_t next_power_of_2(int64_t x) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}

// As many rows of logits as the hidden states have elements a chunk, about.
int64_t rows_per_chunk(int64_t rows, int64_t vocabulary, int64_t width) {
  return next_power_of_2(divide_up(rows, divide_up(vocabulary, width)));
}

struct Buffers {
  Value hidden_gradient, weight_gradient;  // the latter undefined when the weight is frozen
  Value losses;                            // fp32, one a row
};

// What the loop's names hold from one chunk to the next.
struct Locals {
  Value hidden, logits, logits_gradient, transposed_gradient, cast_hidden, labels;
};

void add_weight_gradient(Eager& e, Buffers& buffers, Locals& locals) {
  locals.transposed_gradient = ops::transpose(locals.logits_gradient, 0, 1);
  const bool adds_in_fp32 =
      buffers.weight_gradient.dtype() == DType::kFloat32 && is_half(locals.transposed_gradient.dtype());
  if (adds_in_fp32) {  // torch.addmm(out_dtype=float32) into the buffer
    locals.cast_hidden = locals.hidden;
    locals.cast_hidden = ops::cast(locals.cast_hidden, locals.transposed_gradient.dtype());
    Value sum = buffers.weight_gradient, left = locals.transposed_gradient, right = locals.cast_hidden;
    e.recorder().emit_in_place(OpKind::kAddmmInPlace, {&sum, &left, &right});
    return;
  }
  Value product = e.matmul(ops::transpose(locals.logits_gradient, 0, 1), locals.hidden);
  buffers.weight_gradient =
      ops::add_(std::move(buffers.weight_gradient), ops::cast(std::move(product), DType::kFloat32));
}

void write_chunk(Eager& e, const Value& hidden, const Value& weight, const Value& labels, int64_t start,
                 int64_t length, Buffers& buffers, Locals& locals) {
  locals.hidden = ops::slice(hidden, 0, start, length);
  locals.logits = e.matmul(locals.hidden, ops::transpose(weight, 0, 1));
  mark_as_logits(locals.logits);
  locals.labels = ops::slice(labels, 0, start, length);
  // The kernel leaves the gradient in the logits' place.
  const std::vector<TensorId> touched{locals.logits.id(), locals.labels.id(), buffers.losses.id()};
  e.recorder().emit_effect(OpKind::kLigerCrossEntropy, touched);
  locals.logits_gradient = locals.logits;
  if (hidden.requires_grad()) {
    Value part = e.matmul(locals.logits_gradient, weight);
    Value place = ops::slice(buffers.hidden_gradient, 0, start, length);
    ops::copy_(std::move(place), std::move(part));
  }
  if (buffers.weight_gradient) add_weight_gradient(e, buffers, locals);
}

// fused_linear_cross_entropy_forward; the loss without its function.
Value write_forward(Eager& e, const Value& hidden, const Value& weight, const Value& labels,
                    Buffers& buffers) {
  const int64_t rows = hidden.size(0);
  const int64_t size = rows_per_chunk(rows, weight.size(0), hidden.size(1));
  buffers.hidden_gradient = ops::zeros_like(hidden);
  if (hidden.requires_grad() && weight.requires_grad()) buffers.weight_gradient = ops::zeros_like(weight);
  buffers.losses = ops::zeros(e.recorder(), {rows}, DType::kFloat32);
  const Value counted = ops::compare(labels);
  ops::sum(counted, {0}, false).reset();
  Locals locals;
  for (int64_t start = 0; start < rows; start += size)
    write_chunk(e, hidden, weight, labels, start, std::min(size, rows - start), buffers, locals);
  return ops::sum(buffers.losses, {0}, false);
}

// LigerFusedLinearCrossEntropyFunction.apply
Value fused_linear_cross_entropy(Eager& e, const Value& hidden, const Value& weight, const Value& labels) {
  Buffers buffers;
  Value loss;
  {
    const With<bool> no_grad(e.recorder().is_grad_enabled, false);
    loss = write_forward(e, hidden, weight, labels, buffers);
  }
  buffers.losses.reset();
  Value from_hidden = hidden, from_weight = weight;
  return e.recorder().emit_in_place(
      OpKind::kFusedLinearCrossEntropy,
      {&loss, &from_hidden, &from_weight, &buffers.hidden_gradient, &buffers.weight_gradient});
}

}  // namespace

Value fused_linear_causal_lm_loss(Eager& e, const Value& last_hidden, const Value& given_labels) {
  Value hidden = ops::slice_or_alias(last_hidden, 1, 0, last_hidden.size(1));
  Value labels = ops::pad(given_labels, 0, 1);
  Value shifted = ops::contiguous(ops::slice(labels, -1, 1, given_labels.size(-1)));
  hidden = ops::view(hidden, {-1, last_hidden.size(-1)});
  shifted = ops::view(shifted, {-1});
  Value weight;
  {
    const Eager::Module scope(e, "lm_head");
    weight = e.parameter("weight");
  }
  return fused_linear_cross_entropy(e, hidden, weight, shifted);
}

}  // namespace plimsoll::pytorch
