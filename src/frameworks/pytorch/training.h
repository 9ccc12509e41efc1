// A whole training run of the PyTorch framework as a complete Program: load, two optimizer steps (the first
// makes the states), evaluation. The schedule plays sections; what repeats is one section played again.
#pragma once

#include "base/result.h"
#include "frameworks/pytorch/forward.h"
#include "frameworks/pytorch/sharding_plan.h"
#include "model/architecture.h"
#include "program/passes/pass_list.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

// What frameworks on top of PyTorch do in their own way.
struct TrainingRecipe {
  Result<void> (*check)(const Architecture&, const ResolvedJob&);  // whether there is a recipe
  Result<ForwardProgram> (*record_forward)(const Architecture&, const ResolvedJob&,
                                           const std::vector<bool>& trainable, ForwardOptions);
  Result<void> (*mark_recompute)(Program& forward, const ResolvedJob&);
  ShardingPlan (*sharding_plan)(const Architecture&, const ResolvedJob&);  // under FSDP2
};
// Transformers' modelling code in a plain loop.
const TrainingRecipe& transformers_recipe();

struct TrainingOptions {
  bool sums_in_place = true;  // false: gradients that meet are summed as under a tracing mode (autograd.h)
  bool lists_states = false;  // the loop lists the optimizer's states after every step
  // Each step and micro-batch as statements of its own, also where they repeat.
  bool writes_every_step = false;
  const TrainingRecipe* recipe = nullptr;  // null: Transformers'
  PassList* passes =
      nullptr;  // takes the records of the passes and decides on verification; null: nobody does
};

// Phases are named as the training loop goes: "load", "fwd1", "bwd1" ("fwd1.2" with several micro-batches),
// "step1", "zero1", "fwd2" ..., "eval".
Result<Program> build_training(const Architecture& architecture, const ResolvedJob& job,
                               const TrainingOptions& options = {});

}  // namespace plimsoll::pytorch
