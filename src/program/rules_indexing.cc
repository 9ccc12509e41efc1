#include <bit>

#include "program/backward_rules.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

Saves keeps_index(const Program&, const Op&, const InputSet&) { return {.inputs = 2}; }

void embedding(BackwardCall& call) {
  Value gradient = call.gradient();
  Value ids = call.input(1);
  const Layout layout = Layout::contiguous(call.input_info(0).layout.shape());
  call.results[0] =
      call.recorder.emit(OpKind::kEmbeddingBackward, {&gradient, &ids}, {layout, gradient.dtype()});
}

// Zeros like the op's input, into which its gradient is put. The results of index_put, scatter and
// scatter_add are new tensors: so the engine does it where tensors are of a subclass
// (areAnyTensorSubclassLike in FunctionsManual.cpp and ReduceOps.cpp), as under the tracing tensors whose
// events we follow.
Value zeros_like_input(BackwardCall& call, DType dtype) {
  return ops::zeros(call.recorder, Layout::contiguous(call.input_info(0).layout.shape()), dtype);
}

// Gradient of reading along one dim by an index.
void scattered(BackwardCall& call) {
  Value zeros = zeros_like_input(call, call.gradient().dtype());
  const int dim = std::countr_zero(call.attributes<DimAttr>().mask);
  call.results[0] = ops::scatter_add(std::move(zeros), dim, call.input(1), call.gradient());
}

// scatter_ of a source: where it went is taken from its gradient.
void scatter_in_place(BackwardCall& call) {
  const int dim = std::countr_zero(call.attributes<DimAttr>().mask);
  if (call.needs(0)) call.results[0] = ops::scatter(call.gradient(), dim, call.input(1));
  if (call.needs(2)) call.results[2] = ops::gather(call.gradient(), dim, call.input(1));
}

Saves keeps_indices(const Program&, const Op& op, const InputSet&) {
  return {.inputs = static_cast<uint16_t>(Saves::first(op.input_count) & ~1U)};
}
void index(BackwardCall& call) {
  Value zeros = zeros_like_input(call, call.input_info(0).dtype);
  std::vector<Value> indices;
  for (size_t i = 1; i < call.op.input_count; ++i) indices.push_back(call.input(i));
  call.results[0] =
      ops::index_put(std::move(zeros), std::move(indices), call.gradient(), call.attributes<SliceAttr>().dim);
}

// topk, sort and max of a dim: the gradient of the values, scattered to where they came from.
Saves keeps_chosen(const Program&, const Op&, const InputSet&) { return {.outputs = 2}; }
void chosen(BackwardCall& call) {
  const uint32_t mask = call.attributes<DimAttr>().mask;
  const bool drops_dim = call.output_info(0).layout.rank < call.input_info(0).layout.rank;
  const int dim = std::countr_zero(mask);
  Value gradient = call.gradient(), indices = call.output(1);
  if (drops_dim) {
    gradient = ops::unsqueeze(std::move(gradient), dim);
    indices = ops::unsqueeze(std::move(indices), dim);
  }
  Value zeros = zeros_like_input(call, gradient.dtype());
  call.results[0] = ops::scatter(std::move(zeros), dim, std::move(indices), std::move(gradient));
}

}  // namespace

void add_indexing_rows(const SetRow& set) {
  set(OpKind::kEmbedding, {.saves = keeps_index, .backward = embedding});
  set(OpKind::kGather, {.saves = keeps_index, .backward = scattered});
  set(OpKind::kScatterInPlace, {.saves = keeps_index, .backward = scatter_in_place});
  set(OpKind::kIndex, {.saves = keeps_indices, .backward = index});
  set(OpKind::kTopk, {.saves = keeps_chosen, .backward = chosen});
  set(OpKind::kSort, {.saves = keeps_chosen, .backward = chosen});
  set(OpKind::kMax, {.saves = keeps_chosen, .backward = chosen});
}

}  // namespace plimsoll
