// Which parameters a run trains, and whether the backward reached them.
//
//   Result<std::vector<bool>> trainable = trainable_flags(job, architecture);
//   PLIMSOLL_CHECK(check_gradients(architecture, *trainable, engine.trained_tensors(), job, program));
//
// A trained parameter without gradient is none that the optimizer knows of. Source: the optimizers skip
// parameters whose grad is None (torch/optim); DistributedDataParallel doesn't go on to a second forward
// ("Expected to have finished reduction in the prior iteration", torch/csrc/distributed/c10d/reducer.cpp).
#pragma once

#include <vector>

#include "base/result.h"
#include "frameworks/pytorch/optimizers/optimizer.h"
#include "model/architecture.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

// One flag per Architecture::parameters.
Result<std::vector<bool>> trainable_flags(const ResolvedJob& job, const Architecture& architecture);

// `trained`: the tensors with gradients, after a backward. Parameters without one are a note of the program.
// Errors: there is no gradient at all; DDP and a parameter without one.
Result<void> check_gradients(const Architecture& architecture, const std::vector<bool>& trainable,
                             const std::vector<TrainedTensor>& trained, const ResolvedJob& job,
                             Program& program);

}  // namespace plimsoll::pytorch
