// A training run of the native runtime as a complete Program: load, one optimizer step (played again for the
// second: both are alike), evaluation. Phases are named as those of the PyTorch framework.
//
//   PLIMSOLL_TRY(native, build_training(architecture, job, {.rank = 0}));
//   simulate(native.program, heap);        // or runtime/: the same statements on tensors
#pragma once

#include <vector>

#include "base/result.h"
#include "frameworks/native/zero.h"
#include "model/architecture.h"
#include "program/passes/pass_list.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll::native {

struct TrainingOptions {
  int64_t rank = 0;  // of the data-parallel group
  PassList* passes =
      nullptr;  // takes the records of the passes and decides on verification; null: nobody does
};

struct RotaryTensors {
  TensorId cos, sin;  // fp32 [sequence, rotary_dim / 2]
};

// The sections of one micro-batch.
struct MicroStep {
  uint32_t forward = 0, backward = 0;  // indices into Program::sections
  TensorId loss;                       // fp32 scalar, there between the two
};

struct Training {
  Program program;
  std::vector<UnitTensors> units;
  std::optional<RotaryTensors> rotary;
  TensorId ids, labels;                 // int64 [micro_batch, sequence]: filled before each forward
  uint32_t load = 0;                    // section
  std::vector<MicroStep> micro_steps;   // of one optimizer step, in order; several may be one section
  uint32_t step = 0;                    // section
  TensorId squared_norm;                // fp64 scalar: of the gradients before clipping, after `step`
  std::optional<MicroStep> evaluation;  // its backward is unused
};

Result<Training> build_training(const Architecture& architecture, const ResolvedJob& job,
                                const TrainingOptions& options = {});

}  // namespace plimsoll::native
