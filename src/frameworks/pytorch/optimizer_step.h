// The step phase of a training loop: gradients are unscaled and clipped, the optimizer steps, the loss scale
// is updated.
#pragma once

#include <optional>

#include "frameworks/pytorch/grad_scaler.h"
#include "frameworks/pytorch/optimizers/optimizer.h"

namespace plimsoll::pytorch {

class OptimizerStep {
 public:
  // Errors: as make_optimizer's.
  static Result<OptimizerStep> make(const OptimizerContext& context);

  // Null without a loss scale.
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  void write(const std::vector<TrainedTensor>& tensors);

 private:
  explicit OptimizerStep(Recorder& recorder) : r_(&recorder) {}
  void write_steps(const std::vector<TrainedTensor>& tensors);

  Recorder* r_;
  std::unique_ptr<OptimizerRecipe> optimizer_;  // null: no step
  std::optional<GradScaler> scaler_;
  std::optional<double> clip_max_norm_;
  bool is_sharded_ = false;
};

}  // namespace plimsoll::pytorch
