// The program of a job, by the framework whose code runs it.
#pragma once

#include "base/result.h"
#include "model/architecture.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll {

// Ranks that differ: the stages of a pipeline.
int64_t distinct_ranks(const ResolvedJob& job);
// Of one of the distinct ranks; its data-parallel ranks are alike. Errors: what the framework has no code
// for.
Result<Program> build_training_program(const Architecture& architecture, const ResolvedJob& job,
                                       int64_t rank = 0);
// The same error without building anything.
Result<void> check_framework_supports(const Architecture& architecture, const ResolvedJob& job);

}  // namespace plimsoll
