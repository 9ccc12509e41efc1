// The learning rate of each step: a linear warm-up from 0, then constant or half a cosine down.
#pragma once

#include "strategy/job.h"

namespace plimsoll::runtime {

// Of the optimizer step number `step`, from 1. Source: get_cosine_schedule_with_warmup of
// transformers/optimization.py, with an end above 0 where the job asks for one.
double learning_rate_at(const RunSettings& run, int64_t step);

}  // namespace plimsoll::runtime
