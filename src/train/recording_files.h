// What a rank's allocations were to be and what they were, as snapshots in a folder:
//
//   FOLDER/predicted.rank0.pickle, FOLDER/measured.rank0.pickle
//
//   plimsoll compare FOLDER/predicted.rank0.pickle FOLDER/measured.rank0.pickle
#pragma once

#include <string>

#include "base/result.h"
#include "runtime/launch/process_place.h"
#include "runtime/training_run.h"

namespace plimsoll {

// The two files of a rank.
struct RecordingFiles {
  std::string predicted, measured;
};
RecordingFiles recording_files(const std::string& folder, int64_t rank);

// Makes the folder, and removes what an earlier recording of this rank left; rank 0 also that of ranks which
// there are no more. Errors: it can't be made or written to.
Result<void> open_recording_folder(const std::string& folder, const runtime::ProcessPlace& place);
// Both, or the error. REQUIRES the run was recorded.
Result<void> write_recording(runtime::TrainingRun& run, const RecordingFiles& files);

}  // namespace plimsoll
