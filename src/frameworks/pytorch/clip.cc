#include "frameworks/pytorch/clip.h"

#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

std::vector<Value> gradient_norms(Recorder& r, const std::vector<TrainedTensor>& tensors) {
  std::vector<Value> gradients, norms;
  for (const TrainedTensor& t : tensors) gradients.push_back(t.gradient);
  for (const std::vector<size_t>& group : groups_by_dtype(gradients)) {
    std::vector<Value*> pointers;
    for (size_t i : group) pointers.push_back(&gradients[i]);
    const std::vector<Recorder::Result> results(
        group.size(), {Layout::contiguous(std::initializer_list<int64_t>{}), pointers[0]->dtype()});
    for (Value& norm : r.emit_many(OpKind::kForeachNorm, pointers, results)) norms.push_back(std::move(norm));
  }
  return norms;
}

// The norms of the shards become those of the whole gradients: powers are summed over the ranks.
Value reduced_over_ranks(const Value& norms) {
  Value powers = ops::pow(norms, 2);
  Value sums = ops::empty_like(powers);
  norms.recorder().emit_effect(OpKind::kAllReduce, std::vector<TensorId>{sums.id(), powers.id()});
  return ops::pow(sums, 0.5);
}

Value total_norm(Recorder& r, const std::vector<TrainedTensor>& tensors, bool is_sharded) {
  const std::vector<Value> norms = gradient_norms(r, tensors);
  Value stacked = ops::stack(norms, 0);
  if (!is_sharded) return norm(std::move(stacked));
  return norm(reduced_over_ranks(stacked));
}

}  // namespace

void clip_gradients(Recorder& r, const std::vector<TrainedTensor>& tensors, double max_norm,
                    bool is_sharded) {
  const Value total = total_norm(r, tensors, is_sharded);
  Value coefficient;
  {  // max_norm / (total + 1e-6): __rtruediv__ holds its argument to its end
    const Value sum = ops::add(total, 1e-6);
    coefficient = ops::mul(ops::unary(OpKind::kReciprocal, sum), max_norm);
  }
  const Value clamped = ops::unary(OpKind::kClamp, coefficient);
  update(r, OpKind::kForeachUpdate, tensors);
}

}  // namespace plimsoll::pytorch
