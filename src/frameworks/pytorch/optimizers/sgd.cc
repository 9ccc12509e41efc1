// torch.optim.SGD without weight decay and Nesterov momentum. Source: torch/optim/sgd.py.
#include "frameworks/pytorch/optimizers/optimizer.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

class Sgd : public OptimizerRecipe {
 public:
  Sgd(Recorder& recorder, OptimizerImplementation how, bool has_momentum)
      : r_(recorder), how_(how), has_momentum_(has_momentum) {}

  bool unscales_gradients() const override { return how_ == OptimizerImplementation::kFused; }

  void step(const std::vector<TrainedTensor>& tensors) override {
    if (has_momentum_ && momenta_.empty()) make_momenta(tensors);
    update(r_, OpKind::kForeachUpdate, tensors);
  }

 private:
  // The first momentum is a copy of the gradient; the fused kernel fills an empty tensor.
  void make_momenta(const std::vector<TrainedTensor>& tensors) {
    const bool is_fused = how_ == OptimizerImplementation::kFused;
    for (const TrainedTensor& t : tensors) {
      const StateScope state(t.parameter);
      momenta_.push_back(is_fused ? ops::empty_like(t.gradient) : ops::clone(t.gradient));
    }
  }

  Recorder& r_;
  OptimizerImplementation how_;
  bool has_momentum_;
  std::vector<Value> momenta_;
};

}  // namespace

std::unique_ptr<OptimizerRecipe> make_sgd(const OptimizerContext& context) {
  return std::make_unique<Sgd>(context.recorder, context.job.optimizer.implementation, false);
}
std::unique_ptr<OptimizerRecipe> make_sgd_momentum(const OptimizerContext& context) {
  return std::make_unique<Sgd>(context.recorder, context.job.optimizer.implementation, true);
}

}  // namespace plimsoll::pytorch
