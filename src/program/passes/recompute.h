// Pass "recompute": marks the blocks of a forward program whose activations are computed again in the
// backward. What is then kept and what is played again follows from the marks in Autograd. "none" leaves the
// program as it is. Source: torch/utils/checkpoint.py; transformers/modeling_layers.py
// (GradientCheckpointingLayer).
#pragma once

#include "base/result.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll {

// Errors: a kept op that the program does not know, by name.
Result<void> mark_recompute(Program& forward, const Recompute& recompute);

}  // namespace plimsoll
