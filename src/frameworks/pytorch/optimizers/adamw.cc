// torch.optim.AdamW without amsgrad. Source: torch/optim/adam.py (_init_group, _single_tensor_adam,
// _multi_tensor_adam, _fused_adam).
#include "frameworks/pytorch/optimizers/optimizer.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

class AdamW : public OptimizerRecipe {
 public:
  AdamW(Recorder& recorder, OptimizerImplementation how) : r_(recorder), how_(how) {}

  bool unscales_gradients() const override { return how_ == OptimizerImplementation::kFused; }

  void step(const std::vector<TrainedTensor>& tensors) override {
    if (second_moments_.empty()) make_states(tensors);
    switch (how_) {
      case OptimizerImplementation::kFused:
        return update(r_, OpKind::kFusedAdamw, tensors);
      case OptimizerImplementation::kForeach:
        return foreach_step(tensors);
      case OptimizerImplementation::kForLoop:
        return loop_step(tensors);
    }
  }

 private:
  // The count of steps is on the host unless the kernel is fused.
  void make_states(const std::vector<TrainedTensor>& tensors) {
    for (const TrainedTensor& t : tensors) {
      if (how_ == OptimizerImplementation::kFused) {
        const StateScope state(t.parameter);
        steps_.push_back(ops::zeros(r_, {}, DType::kFloat32));
      }
      first_moments_.push_back(zeros_state(t.parameter, t.parameter.dtype()));
      second_moments_.push_back(zeros_state(t.parameter, t.parameter.dtype()));
    }
  }

  // The roots of one group's second moments live until those of the next are made.
  void foreach_step(const std::vector<TrainedTensor>& tensors) {
    std::vector<Value> roots;
    for (const std::vector<size_t>& group : groups_by_dtype(second_moments_)) {
      std::vector<Value> moments;
      std::vector<TrainedTensor> members;
      for (size_t i : group) {
        moments.push_back(second_moments_[i]);
        members.push_back(tensors[i]);
      }
      roots = foreach_like(r_, OpKind::kForeachSqrt, std::move(moments));
      update(r_, OpKind::kForeachUpdate, members);
    }
  }

  // denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps); the one before lives until then.
  void loop_step(const std::vector<TrainedTensor>& tensors) {
    Value denominator;
    for (size_t i = 0; i < tensors.size(); ++i) {
      denominator = ops::div(ops::unary(OpKind::kSqrt, second_moments_[i]), 1.0);
      update(tensors[i].parameter, {&first_moments_[i], &denominator});
    }
  }

  Recorder& r_;
  OptimizerImplementation how_;
  std::vector<Value> steps_, first_moments_, second_moments_;
};

}  // namespace

std::unique_ptr<OptimizerRecipe> make_adamw(const OptimizerContext& context) {
  return std::make_unique<AdamW>(context.recorder, context.job.optimizer.implementation);
}

}  // namespace plimsoll::pytorch
