// Liger's fused linear cross-entropy: no logits but those of one chunk of tokens; both gradients are ready
// when the forward ends. Source: liger_kernel/ops/fused_linear_cross_entropy.py of 0.8.5 (reduction "mean",
// accum_dtype None, sm_80 or later), transformers/model/loss_utils.py (LigerForCausalLMLoss). Does not model:
// releases before 0.8.3, whose products made a tensor of their own before they were added.
#include <bit>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

int64_t next_power_of_2(int64_t x) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}

// As many elements of logits a chunk as the hidden states have, about.
int64_t rows_per_chunk(int64_t rows, int64_t vocabulary, int64_t width) {
  return std::min(rows, next_power_of_2(divide_up(rows, divide_up(vocabulary, width))));
}

struct Buffers {
  // The latter undefined when the weight is frozen; and when the hidden states want no gradient, even if the
  // weight does (`if input_requires_grad` there).
  Value hidden_gradient, weight_gradient;
  Value losses;  // fp32, one a row
  Value logits;  // of a chunk, where products are written in place
};

// _can_use_mm_out: whether products go straight into a buffer, which autocast would not cast for.
bool writes_into_buffers(const Eager& e, const Value& hidden, const Value& weight) {
  return hidden.dtype() == weight.dtype() && e.autocast_dtype().value_or(hidden.dtype()) == hidden.dtype();
}

void mm_into(Value place, Value left, Value right) {
  place.recorder().emit_in_place(OpKind::kMmOut, {&place, &left, &right});
}

Value logits_of_chunk(Eager& e, const Value& hidden, const Value& weight, const Buffers& buffers) {
  if (!buffers.logits) {
    Value logits = e.matmul(hidden, ops::transpose(weight, 0, 1));
    mark_as_logits(logits);
    return logits;
  }
  Value logits = ops::slice(buffers.logits, 0, 0, hidden.size(0));
  mm_into(logits, hidden, ops::transpose(weight, 0, 1));
  return logits;
}

void write_hidden_gradient(Eager& e, const Value& gradient, const Value& weight, int64_t start,
                           const Buffers& buffers) {
  if (buffers.logits && gradient.dtype() == buffers.hidden_gradient.dtype()) {
    mm_into(ops::slice(buffers.hidden_gradient, 0, start, gradient.size(0)), gradient, weight);
    return;
  }
  Value part = e.matmul(gradient, weight);
  ops::copy_(ops::slice(buffers.hidden_gradient, 0, start, gradient.size(0)), std::move(part));
}

void add_weight_gradient(Eager& e, const Value& gradient, const Value& hidden, Buffers& buffers) {
  Value left = ops::transpose(gradient, 0, 1);
  const DType sum = buffers.weight_gradient.dtype();
  if (is_half(left.dtype()) && (sum == DType::kFloat32 || sum == left.dtype())) {
    Value total = buffers.weight_gradient, right = ops::cast(hidden, left.dtype());
    e.recorder().emit_in_place(OpKind::kAddmmOut, {&total, &left, &right});
    return;
  }
  Value product = e.matmul(ops::transpose(gradient, 0, 1), hidden);
  buffers.weight_gradient =
      ops::add_(std::move(buffers.weight_gradient), ops::cast(std::move(product), DType::kFloat32));
}

void write_chunk(Eager& e, const Value& all_hidden, const Value& weight, const Value& all_labels,
                 int64_t start, int64_t length, Buffers& buffers) {
  const Value hidden = ops::slice(all_hidden, 0, start, length);
  const Value logits = logits_of_chunk(e, hidden, weight, buffers);
  const Value labels = ops::slice(all_labels, 0, start, length);
  // The kernel leaves the gradient in the logits' place.
  const std::vector<TensorId> touched{logits.id(), labels.id(), buffers.losses.id()};
  e.recorder().emit_effect(OpKind::kLigerCrossEntropy, touched);
  if (all_hidden.requires_grad()) write_hidden_gradient(e, logits, weight, start, buffers);
  if (buffers.weight_gradient) add_weight_gradient(e, logits, hidden, buffers);
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
  if (writes_into_buffers(e, hidden, weight)) {
    const With<Category> category(e.recorder().category, Category::kLogits);
    buffers.logits = ops::empty(e.recorder(), {size, weight.size(0)}, hidden.dtype());
  }
  for (int64_t start = 0; start < rows; start += size)
    write_chunk(e, hidden, weight, labels, start, std::min(size, rows - start), buffers);
  buffers.logits.reset();
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
