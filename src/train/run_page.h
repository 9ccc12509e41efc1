// What a run was: loss, speed, and its memory as predicted and as measured.
#pragma once

#include <span>
#include <string>

#include "model/architecture.h"
#include "runtime/training_run.h"
#include "strategy/job.h"
#include "train/run_log.h"

namespace plimsoll {

// A rank's row of the page: its highest predicted and measured peak, scratch, whether its phases are equal.
std::string memory_row(const runtime::TrainingRun& run);

// And one of its resident set: at its peak, and as it was before the model.
std::string resident_row(Bytes before);

struct RankRows {
  std::span<const std::string> memory, resident;  // of each rank
};
// What the run itself doesn't know.
struct RunPageWords {
  std::string weights;      // what it began with: a path, or "fresh weights from seed 0"
  std::string held_out;     // what the last evaluation was of
  std::string checkpoints;  // where the last one is; empty: none
};
// Of rank 0.
std::string run_page(const Architecture& architecture, const ResolvedJob& job,
                     const runtime::TrainingRun& run, const RunLog& log, const RankRows& ranks,
                     const RunPageWords& words);

}  // namespace plimsoll
