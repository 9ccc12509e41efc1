// The optimizers of the native runtime: the op that updates a unit's shard (its kernel is in
// runtime/kernels/optimizer.cc) and how many fp32 tensors like the shard it keeps from step to step.
#pragma once

#include "program/op.h"
#include "strategy/job.h"

namespace plimsoll::native {

struct OptimizerRow {
  OptimizerKind kind = OptimizerKind::kAdamW;
  OpKind update = OpKind::kAdamwUpdate;  // inputs: master, gradient, states... [, bf16 copy of the master]
  int states = 0;
};

// REQUIRES a kind that check_native lets pass (strategy/native_checks.cc).
const OptimizerRow& optimizer_row(OptimizerKind kind);

}  // namespace plimsoll::native
