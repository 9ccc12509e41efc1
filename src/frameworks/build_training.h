// The program of a job, by the framework whose code runs it.
#pragma once

#include "base/result.h"
#include "model/architecture.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll {

// Of the data-parallel rank 0, of which all others are alike. Errors: what the framework has no code for.
Result<Program> build_training_program(const Architecture& architecture, const ResolvedJob& job);
// The same error without building anything.
Result<void> check_framework_supports(const Architecture& architecture, const ResolvedJob& job);

}  // namespace plimsoll
