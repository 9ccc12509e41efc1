// Lion as its authors publish it: one momentum in the parameter's dtype. Source: lion/lion_pytorch.py in
// google/automl.
#include "frameworks/pytorch/optimizers/optimizer.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

class Lion : public OptimizerRecipe {
 public:
  void step(const std::vector<TrainedTensor>& tensors) override {
    const bool is_first = momenta_.empty();
    Value change;  // `update`, a local that lives until the next parameter's is there
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (is_first) momenta_.push_back(zeros_state(tensors[i].parameter, tensors[i].parameter.dtype()));
      // exp_avg * beta1 + grad * (1 - beta1)
      Value old_part = ops::mul(momenta_[i], 0.9);
      Value new_part = ops::mul(tensors[i].gradient, 0.1);
      change = ops::add(std::move(old_part), std::move(new_part));
      update(tensors[i].parameter, {&change});
      update(momenta_[i], {&tensors[i].gradient});
    }
  }

 private:
  std::vector<Value> momenta_;
};

}  // namespace

std::unique_ptr<OptimizerRecipe> make_lion(const OptimizerContext&) { return std::make_unique<Lion>(); }

}  // namespace plimsoll::pytorch
