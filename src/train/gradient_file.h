// The gradients of a step as safetensors, in Hugging Face's names and shapes.
#pragma once

#include <filesystem>

#include "model/architecture.h"
#include "runtime/training_run.h"

namespace plimsoll {

// REQUIRES the moment between the last backward and the optimizer's step, and gradients that are whole (one
// rank, or stage 0).
Result<void> write_gradients(runtime::TrainingRun& run, const Architecture& architecture,
                             const std::filesystem::path& path);

}  // namespace plimsoll
