// A training run of Megatron-LM as one rank sees it, as a complete Program: building, two iterations (the
// first makes the optimizer's moments) of forwards and backwards in the schedule's order, and steps.
//
// Phases: "load", "zero1", "fwd1.1", "bwd1.1" (micro-batches counted on each chunk's turn), "x1.1" (what lies
// between a backward and what follows), "step1", "poststep1", "log1", "stat1" (where the framework reads its
// memory), "end1", "zero2" ...
#pragma once

#include "base/result.h"
#include "model/architecture.h"
#include "program/passes/pass_list.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll::megatron {

struct TrainingOptions {
  int64_t pipeline_rank = 0;
  PassList* passes = nullptr;  // takes the records of the passes; null: nobody does
};

// Errors: what has no recipe here.
Result<Program> build_training(const Architecture& architecture, const ResolvedJob& job,
                               const TrainingOptions& options);

}  // namespace plimsoll::megatron
