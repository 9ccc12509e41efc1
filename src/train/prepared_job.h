// A training job as it was asked for, read and checked: all that can be told before ranks start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll {

// What was asked for. It's the same on every rank, and read by each.
struct TrainRequest {
  std::optional<std::string> job_file, gradients, batches;  // what files are named; the latter are written
  std::optional<std::string> recording;                     // a folder
  std::vector<std::string> settings;
};

struct PreparedJob {
  Job job;
  Architecture architecture;
  ResolvedJob resolved;
};

// Reads job and model for so many ranks. Errors: what is wrong with them; a job of another number of ranks.
// Uses no LibTorch.
Result<PreparedJob> prepare(const TrainRequest& request, int64_t ranks, int64_t local_ranks);

}  // namespace plimsoll
