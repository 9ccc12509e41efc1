// Which files and folders a training run writes, held against each other and against what it reads: before
// anything is written, since what is replaced or truncated is gone.
#pragma once

#include "base/result.h"
#include "strategy/job.h"
#include "train/prepared_job.h"

namespace plimsoll {

// Errors: two outputs are one file; an output is a file that the job reads (itself, data, weights,
// configuration); an output below a folder of data, where the next run would be trained on it.
Result<void> check_files(const TrainRequest& request, const Job& job);

// Errors: a dump to standard output, or one that the job's ranks can't write.
Result<void> check_dumps(const TrainRequest& request, const ResolvedJob& job);

}  // namespace plimsoll
