#include "frameworks/pytorch/grad_scaler.h"

#include "program/ops.h"

namespace plimsoll::pytorch {

void GradScaler::make() {
  const With<Category> category(r_.category, Category::kOptimizerState);
  const With<ModuleId> module(r_.module, r_.program().module("grad_scaler"));
  scale_ = ops::full(r_, {}, DType::kFloat32);
  growth_tracker_ = ops::full(r_, {}, DType::kInt32);
}

// _unscale_grads_: both scalars are copied to each device that has gradients, even to their own.
void GradScaler::check(const std::vector<TrainedTensor>& tensors, const Value& inverse, const Value& found) {
  found_infinity_ = ops::clone(found);
  const Value inverse_copy = ops::clone(inverse);
  update(r_, OpKind::kUnscale, tensors);
}

void GradScaler::unscale(const std::vector<TrainedTensor>& tensors) {
  Value inverse = ops::unary(OpKind::kReciprocal, ops::cast(scale_, DType::kFloat64));
  inverse = ops::cast(std::move(inverse), DType::kFloat32);
  const Value found = ops::full(r_, {}, DType::kFloat32);
  check(tensors, inverse, found);
}

void GradScaler::step(OptimizerRecipe& optimizer, const std::vector<TrainedTensor>& tensors) {
  if (optimizer.unscales_gradients()) return step_of_unscaling_kernel(optimizer, tensors);
  if (!found_infinity_) unscale(tensors);
  optimizer.step(tensors);
}

// The kernel gets the scale and the sum of what was found; gradients that are unscaled already need no scale.
void GradScaler::step_of_unscaling_kernel(OptimizerRecipe& optimizer,
                                          const std::vector<TrainedTensor>& tensors) {
  const bool is_unscaled = found_infinity_.is_defined();
  if (!is_unscaled) {
    const Value one = ops::full(r_, {}, DType::kFloat32);
    const Value found = ops::full(r_, {}, DType::kFloat32);
    check(tensors, one, found);
  }
  const Value found = ops::add(found_infinity_, 0.0);
  Value gradient_scale;
  if (!is_unscaled) gradient_scale = ops::mul(scale_, 1.0);
  optimizer.step(tensors);
}

void GradScaler::update_scale() {
  r_.emit_effect(OpKind::kUpdateScale, std::vector<TensorId>{scale_.id(), found_infinity_.id()});
  found_infinity_.reset();
}

}  // namespace plimsoll::pytorch
