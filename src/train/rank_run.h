// One rank of a training run, from the job to the page at its end.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "model/architecture.h"
#include "runtime/communicator.h"
#include "runtime/launch/process_place.h"
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

// Joins the other ranks, trains, and on rank 0 prints the page. The exit code; an error is this rank's own.
Result<int> run_rank(const TrainRequest& request, const runtime::ProcessPlace& place);

}  // namespace plimsoll
