#include "frameworks/pytorch/optimizer_step.h"

#include "frameworks/pytorch/clip.h"

namespace plimsoll::pytorch {

Result<OptimizerStep> OptimizerStep::make(const OptimizerContext& context) {
  const ResolvedJob& job = context.job;
  OptimizerStep step(context.recorder);
  PLIMSOLL_TRY(optimizer, make_optimizer(context));
  step.optimizer_ = std::move(optimizer);
  if (has_grad_scaler(job.precision)) step.scaler_.emplace(context.recorder);
  step.clip_max_norm_ = job.loop.clip_max_norm;
  step.is_sharded_ = job.engine == DataParallelEngine::kFsdp2;
  return step;
}

void OptimizerStep::write(const std::vector<TrainedTensor>& tensors) {
  if (!optimizer_ || tensors.empty()) return;
  // States and temporaries lie where the parameters lie.
  const bool is_on_gpu = r_->program().storage_of(tensors[0].parameter.id()).tier == Tier::kGpu;
  const With<Tier> tier(r_->tier, is_on_gpu ? Tier::kGpu : Tier::kHost);
  const With<Category> temporary(r_->category, Category::kTemporary);
  const With<bool> no_grad(r_->is_grad_enabled, false);
  const With<Holder> holder(r_->holder, Holder::kOptimizer);
  write_steps(tensors);
}

void OptimizerStep::write_steps(const std::vector<TrainedTensor>& tensors) {
  if (scaler_ && clip_max_norm_) scaler_->unscale(tensors);
  if (clip_max_norm_) clip_gradients(*r_, tensors, *clip_max_norm_, is_sharded_);
  if (!scaler_) return optimizer_->step(tensors);
  scaler_->step(*optimizer_, tensors);
  scaler_->update_scale();
}

}  // namespace plimsoll::pytorch
