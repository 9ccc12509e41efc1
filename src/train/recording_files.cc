#include "train/recording_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "cli/output_file.h"
#include "trace/torch_snapshot_writer.h"

namespace plimsoll {

Result<void> open_recording_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!failed && access(folder.c_str(), W_OK) != 0) failed = {errno, std::generic_category()};
  if (!failed) return {};
  return fail({.position = {.file = folder},
               .message = fmt::format("can't be written to: {}", failed.message()),
               .expected = "a folder for --record"});
}

Result<void> write_recording(runtime::TrainingRun& run, const std::string& folder, int64_t rank) {
  const runtime::TrainingRun::Recording recording = run.take_recording();
  const auto write = [&](std::string_view name, const AllocationTrace& trace) {
    return write_output_file(fmt::format("{}/{}.rank{}.pickle", folder, name, rank),
                             [&](std::ostream& out) { write_torch_snapshot(trace, out); });
  };
  PLIMSOLL_CHECK(write("predicted", recording.predicted));
  return write("measured", recording.measured);
}

}  // namespace plimsoll
