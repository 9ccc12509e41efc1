// What torch.optim's optimizers, gradient clipping and the GradScaler allocate in a step.
// Source: torch/optim/{adamw,sgd}.py and _foreach paths, torch/nn/utils/clip_grad.py,
// torch/amp/grad_scaler.py, transformers/optimization.py (Adafactor).
#pragma once

#include <vector>

#include "base/result.h"
#include "program/recorder.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

struct TrainedTensor {
  Value parameter;  // the rank's own (a shard under FSDP)
  Value gradient;
};

class OptimizerWriter {
 public:
  OptimizerWriter(Recorder& recorder, const ResolvedJob& job) : r_(recorder), job_(job) {}

  // Writes clipping (when the job has it) and one step. The first call makes the states.
  Result<void> step(const std::vector<TrainedTensor>& tensors);

 private:
  void clip(const std::vector<TrainedTensor>& tensors);
  void adamw(const std::vector<TrainedTensor>& tensors);
  void sgd(const std::vector<TrainedTensor>& tensors);

  Recorder& r_;
  const ResolvedJob& job_;
  std::vector<Value> states_;
};

}  // namespace plimsoll::pytorch
