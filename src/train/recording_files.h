// What a rank's allocations were to be and what they were, as snapshots in a folder:
//
//   FOLDER/predicted.rank0.pickle, FOLDER/measured.rank0.pickle
//
//   plimsoll compare FOLDER/predicted.rank0.pickle FOLDER/measured.rank0.pickle
#pragma once

#include <string>

#include "base/result.h"
#include "runtime/training_run.h"

namespace plimsoll {

// Makes the folder. Errors: it can't be made or written to.
Result<void> open_recording_folder(const std::string& folder);
// REQUIRES the run was recorded.
Result<void> write_recording(runtime::TrainingRun& run, const std::string& folder, int64_t rank);

}  // namespace plimsoll
