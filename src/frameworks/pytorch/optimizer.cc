#include "frameworks/pytorch/optimizer.h"

#include <fmt/format.h>

#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

std::vector<TensorId> ids_of(const std::vector<TrainedTensor>& tensors) {
  std::vector<TensorId> ids;
  for (const TrainedTensor& t : tensors) {
    ids.push_back(t.parameter.id());
    ids.push_back(t.gradient.id());
  }
  return ids;
}

// One operator that makes a tensor like each of the given ones.
std::vector<Value> foreach_like(Recorder& r, OpKind kind, std::vector<Value> inputs) {
  std::vector<Value*> pointers;
  std::vector<Recorder::Result> results;
  for (Value& v : inputs) {
    pointers.push_back(&v);
    results.push_back({v.layout().like(), v.dtype()});
  }
  return r.emit_many(kind, pointers, results);
}

}  // namespace

Result<void> OptimizerWriter::step(const std::vector<TrainedTensor>& tensors) {
  const With<Category> temporary(r_.category, Category::kTemporary);
  const With<bool> no_grad(r_.is_grad_enabled, false);
  const With<Holder> holder(r_.holder, Holder::kOptimizer);
  if (tensors.empty()) return {};
  if (job_.loop.clip_max_norm) clip(tensors);
  switch (job_.optimizer.kind) {
    case OptimizerKind::kNone:
      return {};
    case OptimizerKind::kAdamW:
      adamw(tensors);
      return {};
    case OptimizerKind::kSgd:
    case OptimizerKind::kSgdMomentum:
      sgd(tensors);
      return {};
    default:
      break;
  }
  return fail({.position = {.key = "optimizer.kind"},
               .message = "this optimizer has no recipe for framework pytorch",
               .expected = "adamw, sgd, sgd-momentum or none"});
}

// clip_grad_norm_(foreach=True)
void OptimizerWriter::clip(const std::vector<TrainedTensor>& tensors) {
  std::vector<Value> gradients;
  std::vector<Value*> pointers;
  std::vector<Recorder::Result> results;
  for (const TrainedTensor& t : tensors) gradients.push_back(t.gradient);
  for (Value& g : gradients) {
    pointers.push_back(&g);
    results.push_back({Layout::contiguous(std::initializer_list<int64_t>{}), g.dtype()});
  }
  std::vector<Value> norms = r_.emit_many(OpKind::kForeachNorm, pointers, results);
  Value stacked = ops::stack(norms, 0);
  Value total = r_.emit(OpKind::kVectorNorm, {&stacked},
                        {Layout::contiguous(std::initializer_list<int64_t>{}), norms[0].dtype()});
  Value coefficient =
      ops::mul(ops::unary(OpKind::kReciprocal, ops::add(total, 1e-6)), *job_.loop.clip_max_norm);
  Value clamped = ops::unary(OpKind::kClamp, coefficient);
  r_.emit_effect(OpKind::kForeachUpdate, ids_of(tensors));
}

void OptimizerWriter::adamw(const std::vector<TrainedTensor>& tensors) {
  const OptimizerImplementation how = job_.optimizer.implementation;
  if (states_.empty()) {
    const With<Category> state(r_.category, Category::kOptimizerState);
    for (const TrainedTensor& t : tensors) {
      if (how == OptimizerImplementation::kFused)
        states_.push_back(
            ops::zeros(r_, Layout::contiguous(std::initializer_list<int64_t>{}), DType::kFloat32));
      states_.push_back(ops::zeros_like(t.parameter));
      states_.push_back(ops::zeros_like(t.parameter));
    }
  }
  if (how == OptimizerImplementation::kFused) {
    r_.emit_effect(OpKind::kFusedAdamw, ids_of(tensors));
    return;
  }
  if (how == OptimizerImplementation::kForeach) {
    std::vector<Value> second_moments;
    for (size_t i = 1; i < states_.size(); i += 2) second_moments.push_back(states_[i]);
    const std::vector<Value> roots = foreach_like(r_, OpKind::kForeachSqrt, std::move(second_moments));
    r_.emit_effect(OpKind::kForeachUpdate, ids_of(tensors));
    return;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    // denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)
    Value denominator = ops::div(ops::unary(OpKind::kSqrt, states_[2 * i + 1]), 1.0);
    const std::vector<TensorId> touched{tensors[i].parameter.id(), denominator.id()};
    r_.emit_effect(OpKind::kForeachUpdate, touched);
  }
}

void OptimizerWriter::sgd(const std::vector<TrainedTensor>& tensors) {
  if (job_.optimizer.kind == OptimizerKind::kSgdMomentum && states_.empty()) {
    const With<Category> state(r_.category, Category::kOptimizerState);
    for (const TrainedTensor& t : tensors) states_.push_back(ops::clone(t.gradient));
  }
  r_.emit_effect(OpKind::kForeachUpdate, ids_of(tensors));
}

}  // namespace plimsoll::pytorch
