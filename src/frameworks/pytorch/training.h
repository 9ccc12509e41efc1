// A whole training run of the PyTorch framework as a complete Program: load, two optimizer steps (the first
// makes the states), evaluation. The schedule plays sections; what repeats is one section played again.
#pragma once

#include "base/result.h"
#include "model/architecture.h"
#include "program/passes/pass_list.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

struct TrainingOptions {
  bool sums_in_place = true;  // false: gradients that meet are summed as under a tracing mode (autograd.h)
  bool lists_states = false;  // the loop lists the optimizer's states after every step
  // Each step and micro-batch as statements of its own, also where they repeat.
  bool writes_every_step = false;
  PassList* passes =
      nullptr;  // takes the records of the passes and decides on verification; null: nobody does
};

// Phases are named as the training loop goes: "load", "fwd1", "bwd1" ("fwd1.2" with several micro-batches),
// "step1", "zero1", "fwd2" ..., "eval".
Result<Program> build_training(const Architecture& architecture, const ResolvedJob& job,
                               const TrainingOptions& options = {});

}  // namespace plimsoll::pytorch
