#include "train/recording_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "cli/output_file.h"
#include "trace/torch_snapshot_writer.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

Error unusable(const std::string& folder, const std::string& why) {
  return {.position = {.file = "--record"},
          .message = fmt::format("\"{}\" can't be written to: {}", folder, why),
          .expected = "a folder"};
}

Result<void> remove_recording(const RecordingFiles& files, const std::string& folder) {
  for (const std::string& file : {files.predicted, files.measured}) {
    std::error_code failed;
    fs::remove(file, failed);
    if (failed) return fail(unusable(folder, fmt::format("{}: {}", file, failed.message())));
  }
  return {};
}

}  // namespace

RecordingFiles recording_files(const std::string& folder, int64_t rank) {
  return {.predicted = fmt::format("{}/predicted.rank{}.pickle", folder, rank),
          .measured = fmt::format("{}/measured.rank{}.pickle", folder, rank)};
}

Result<void> open_recording_folder(const std::string& folder, const runtime::ProcessPlace& place) {
  if (folder.empty() || folder == "-") return fail(unusable(folder, "it is no folder's name"));
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return fail(unusable(folder, failed.message()));
  if (access(folder.c_str(), W_OK) != 0)
    return fail(unusable(folder, std::error_code(errno, std::generic_category()).message()));
  PLIMSOLL_CHECK(remove_recording(recording_files(folder, place.rank), folder));
  if (place.rank != 0) return {};
  for (int64_t rank = place.size; fs::exists(recording_files(folder, rank).predicted); ++rank)
    PLIMSOLL_CHECK(remove_recording(recording_files(folder, rank), folder));
  return {};
}

Result<void> write_recording(runtime::TrainingRun& run, const RecordingFiles& files) {
  const runtime::TrainingRun::Recording recording = run.take_recording();
  const auto write = [](const std::string& file, const AllocationTrace& trace) {
    return write_output_file(file, [&](std::ostream& out) { write_torch_snapshot(trace, out); });
  };
  PLIMSOLL_CHECK(write(files.measured, recording.measured));
  Result<void> written = write(files.predicted, recording.predicted);
  std::error_code ignored;
  if (!written) fs::remove(files.measured, ignored);  // no half of a pair
  return written;
}

}  // namespace plimsoll
