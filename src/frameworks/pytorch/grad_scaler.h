// torch.amp.GradScaler on one device: the loss scale, and what unscaling and the search for infinities
// allocate. No infinity is found. Source: torch/amp/grad_scaler.py.
#pragma once

#include "frameworks/pytorch/optimizers/optimizer.h"

namespace plimsoll::pytorch {

class GradScaler {
 public:
  explicit GradScaler(Recorder& recorder) : r_(recorder) {}

  // The first call of scale() makes the scale and the count of steps since it grew.
  bool is_made() const { return scale_.is_defined(); }
  void make();
  const Value& scale() const { return scale_; }

  void unscale(const std::vector<TrainedTensor>& tensors);
  // scaler.step(optimizer): unscales first unless that is done.
  void step(OptimizerRecipe& optimizer, const std::vector<TrainedTensor>& tensors);
  void update_scale();

 private:
  void check(const std::vector<TrainedTensor>& tensors, const Value& inverse, const Value& found);
  void step_of_unscaling_kernel(OptimizerRecipe& optimizer, const std::vector<TrainedTensor>& tensors);

  Recorder& r_;
  Value scale_, growth_tracker_;
  Value found_infinity_;  // of this step: found_inf_per_device
};

}  // namespace plimsoll::pytorch
