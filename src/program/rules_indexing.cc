#include <bit>

#include "program/backward_rules.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

Saves keeps_index(const Program&, const Op&, uint32_t) { return {.inputs = 2}; }

void embedding(BackwardCall& call) {
  Value gradient = call.gradient();
  Value ids = call.input(1);
  const Layout layout = Layout::contiguous(call.input_info(0).layout.shape());
  call.results[0] =
      call.recorder.emit(OpKind::kEmbeddingBackward, {&gradient, &ids}, {layout, gradient.dtype()});
}

// Gradient of reading along one dim by an index: zeros, into which it is added.
void scattered(BackwardCall& call) {
  Value gradient = call.gradient();
  Value zeros =
      ops::zeros(call.recorder, Layout::contiguous(call.input_info(0).layout.shape()), gradient.dtype());
  const int dim = std::countr_zero(call.attributes<DimAttr>().mask);
  call.results[0] = ops::scatter_add_(std::move(zeros), dim, call.input(1), std::move(gradient));
}

Saves keeps_indices(const Program&, const Op& op, uint32_t) {
  return {.inputs = static_cast<uint16_t>(((1U << op.input_count) - 1) & ~1U)};
}
void index(BackwardCall& call) {
  Value gradient = call.gradient();
  Value zeros =
      ops::zeros(call.recorder, Layout::contiguous(call.input_info(0).layout.shape()), gradient.dtype());
  call.results[0] = ops::index_put_(std::move(zeros), {call.input(1)}, std::move(gradient));
}

// topk, sort and max of a dim: the gradient of the values, scattered to where they came from.
Saves keeps_chosen(const Program&, const Op&, uint32_t) { return {.outputs = 2}; }
void chosen(BackwardCall& call) {
  const uint32_t mask = call.attributes<DimAttr>().mask;
  const bool drops_dim = call.output_info(0).layout.rank < call.input_info(0).layout.rank;
  const int dim = std::countr_zero(mask);
  Value gradient = call.gradient(), indices = call.output(1);
  if (drops_dim) {
    gradient = ops::unsqueeze(std::move(gradient), dim);
    indices = ops::unsqueeze(std::move(indices), dim);
  }
  Value zeros =
      ops::zeros(call.recorder, Layout::contiguous(call.input_info(0).layout.shape()), gradient.dtype());
  call.results[0] = ops::scatter(std::move(zeros), dim, std::move(indices), std::move(gradient));
}

}  // namespace

void add_indexing_rows(SetRow set) {
  set(OpKind::kEmbedding, {.saves = keeps_index, .backward = embedding});
  set(OpKind::kGather, {.saves = keeps_index, .backward = scattered});
  set(OpKind::kIndex, {.saves = keeps_indices, .backward = index});
  set(OpKind::kTopk, {.saves = keeps_chosen, .backward = chosen});
  set(OpKind::kSort, {.saves = keeps_chosen, .backward = chosen});
  set(OpKind::kMax, {.saves = keeps_chosen, .backward = chosen});
}

}  // namespace plimsoll
