// One rank of a training run, from the job to the page at its end.
#pragma once

#include "base/result.h"
#include "runtime/launch/process_place.h"
#include "train/prepared_job.h"

namespace plimsoll {

// Joins the other ranks, trains, and on rank 0 prints the page. The exit code; an error is this rank's own.
Result<int> run_rank(const TrainRequest& request, const runtime::ProcessPlace& place);

}  // namespace plimsoll
