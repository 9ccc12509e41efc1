// What a run was: loss, speed, and its memory as predicted and as measured.
#pragma once

#include <string>

#include "model/architecture.h"
#include "runtime/training_run.h"
#include "strategy/job.h"
#include "train/run_log.h"

namespace plimsoll {

std::string run_page(const Architecture& architecture, const ResolvedJob& job,
                     const runtime::TrainingRun& run, const RunLog& log);

}  // namespace plimsoll
