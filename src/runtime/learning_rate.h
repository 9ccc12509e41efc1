// The learning rate of each step: a linear warm-up from 0, then constant or half a cosine down.
//
//   learning_rate_at({.steps = 12, .learning_rate = 1, .warmup_steps = 4}, n)   // n = 1, 2, ... 12:
//   0, 0.25, 0.5, 0.75, 1, 0.96, 0.85, 0.69, 0.5, 0.31, 0.15, 0.04
#pragma once

#include "strategy/job.h"

namespace plimsoll::runtime {

// Of the optimizer step number `step`, from 1: the schedule after the step - 1 steps that were taken, as a
// LambdaLR that is stepped after the optimizer has it. So the first step of a warm-up moves nothing, the
// first one behind it has the whole train.learning_rate, and train.final_learning_rate is where the schedule
// is after the last step. Source: get_cosine_schedule_with_warmup, get_constant_schedule_with_warmup and, for
// an end above 0, get_cosine_with_min_lr_schedule_with_warmup (min_lr_rate) of transformers/optimization.py.
double learning_rate_at(const RunSettings& run, int64_t step);

}  // namespace plimsoll::runtime
