// A whole training run of torchtitan as a complete Program: phases as in frameworks/pytorch/training.h.
#pragma once

#include "frameworks/pytorch/training.h"

namespace plimsoll::torchtitan {

// Whether there is a recipe; builds nothing.
Result<void> check_supported(const Architecture& architecture, const ResolvedJob& job);

// `architecture`: as the model's configuration in Transformers has it. `options.recipe` is replaced.
Result<Program> build_training(const Architecture& architecture, const ResolvedJob& job,
                               pytorch::TrainingOptions options = {});

}  // namespace plimsoll::torchtitan
