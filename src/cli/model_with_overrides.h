// Reads the model that a job names, with the configuration keys replaced that the job replaces.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll {

Result<Architecture> read_model_with_overrides(const ModelChoice& model, const std::filesystem::path& data);

}  // namespace plimsoll
