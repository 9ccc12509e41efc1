// The numbers of one optimizer step, which no byte depends on.
#pragma once

#include <cstdint>

namespace plimsoll::runtime {

struct StepSettings {
  int64_t step = 1;  // from 1
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double momentum = 0.9;
  double decay_rate = -0.8, clip_threshold = 1;
};

}  // namespace plimsoll::runtime
