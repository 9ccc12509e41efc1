#include "train/file_checks.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/data_dir.h"
#include "cli/output_file.h"
#include "cli/output_target.h"
#include "corpus/corpus_files.h"
#include "importers/hf_config/presets.h"
#include "train/recording_files.h"
#include "weights/model_weights.h"
#include "weights/weights_index.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// "-", /dev/stdout and other names of what this process has open.
bool is_descriptor(const std::string& path) {
  const Result<OutputTarget> target = find_output_target(path);
  return target && target->kind == OutputTarget::Kind::kDescriptor;
}

std::optional<std::string> unless_empty(const std::string& path) {
  return path.empty() ? std::nullopt : std::optional(path);
}

// What the run writes.
struct Outputs {
  std::optional<std::string> predicted, measured, gradients, batches, metrics;  // files
  std::optional<std::string> recording, checkpoints;                            // folders

  std::vector<OutputOption> files() const {
    return {{.name = "--record", .path = predicted},
            {.name = "--record", .path = measured},
            {.name = "--dump-gradients", .path = gradients},
            {.name = "--dump-batches", .path = batches},
            {.name = "train.metrics", .path = metrics}};
  }
  std::vector<OutputOption> folders() const {
    return {{.name = "--record", .path = recording}, {.name = "train.checkpoints", .path = checkpoints}};
  }
};

Outputs outputs_of(const TrainRequest& request, const Job& job) {
  Outputs outputs{.gradients = request.gradients,
                  .batches = request.batches,
                  .metrics = unless_empty(job.run.metrics),
                  .recording = request.recording,
                  .checkpoints = unless_empty(job.run.checkpoints)};
  if (!request.recording) return outputs;
  const RecordingFiles files = recording_files(*request.recording, 0);
  outputs.predicted = files.predicted;
  outputs.measured = files.measured;
  return outputs;
}

void add_weights(const fs::path& path, std::vector<std::string>& inputs) {
  std::error_code problem;
  fs::path file = path;
  if (fs::is_directory(path, problem))
    file = path / (fs::exists(path / kModelFile, problem) ? kModelFile : kModelIndexFile);
  inputs.push_back(file.string());
  if (file.extension() != ".json") return;
  const Result<WeightsIndex> index = read_weights_index(file);
  if (!index) return;  // told when it is opened
  for (const auto& [tensor, shard] : index->shard_of) inputs.push_back((file.parent_path() / shard).string());
}

// Without those below folders of data.
std::vector<std::string> inputs_of(const TrainRequest& request, const Job& job) {
  std::vector<std::string> inputs;
  if (request.job_file) inputs.push_back(*request.job_file);
  if (const auto config = find_model_config(job.model.name, data_dir())) inputs.push_back(config->string());
  if (!job.run.weights.empty()) add_weights(job.run.weights, inputs);
  for (const std::string& data : {job.data.path, job.data.held_out}) {
    if (data.empty()) continue;
    inputs.push_back(data);
    inputs.push_back(data + ".json");  // the sidecar of tokens
  }
  return inputs;
}

// Whether a corpus of the folder would have the file; hidden ones are passed over.
bool is_visible_below(const fs::path& path, const fs::path& folder) {
  std::error_code problem;
  const fs::path top = fs::canonical(folder, problem);
  if (problem) return false;
  const auto is_inside = [&](const fs::path& place) {
    const auto [t, p] = std::mismatch(top.begin(), top.end(), place.begin(), place.end());
    if (t != top.end()) return false;
    return std::none_of(p, place.end(), [](const fs::path& part) { return part.string().starts_with('.'); });
  };
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return is_inside(fs::weakly_canonical(path, problem)) ||
         is_inside(fs::weakly_canonical(parent, problem) / path.filename());
}

tl::unexpected<Error> refuse(const OutputOption& output, std::string_view field, const std::string& what) {
  return fail({.position = {.file = std::string(output.name)},
               .message = fmt::format("{} is {} {}", *output.path, what, field),
               .expected = "a place outside of the data"});
}

// Links and other names of an output that is there already.
Result<void> check_is_no_file_of(const std::vector<OutputOption>& outputs, const fs::path& data,
                                 std::string_view field) {
  std::vector<std::pair<const OutputOption*, struct stat>> there;
  for (const OutputOption& output : outputs) {
    struct stat status {};
    if (output.path && stat(path_of_output(*output.path).c_str(), &status) == 0 && S_ISREG(status.st_mode))
      there.emplace_back(&output, status);
  }
  if (there.empty()) return {};
  const Result<CorpusFiles> found = find_corpus_files({.paths = {data}, .format = CorpusFormat::kText});
  if (!found) return {};  // told when it is opened
  for (const CorpusFile& file : found->files)
    for (const auto& [output, status] : there)
      if (file.stamp.inode == status.st_ino && file.stamp.device == status.st_dev)
        return refuse(*output, field, fmt::format("the file {} of", file.path.string()));
  return {};
}

Result<void> check_beside_data(const Outputs& outputs, const std::string& data, std::string_view field) {
  std::error_code problem;
  if (data.empty() || !fs::is_directory(data, problem)) return {};
  std::vector<OutputOption> all = outputs.files();
  for (const OutputOption& folder : outputs.folders()) all.push_back(folder);
  for (const OutputOption& output : all)
    if (output.path && is_visible_below(path_of_output(*output.path), data))
      return refuse(output, field, "below the folder of");
  return check_is_no_file_of(outputs.files(), data, field);
}

}  // namespace

Result<void> check_files(const TrainRequest& request, const Job& job) {
  const Outputs outputs = outputs_of(request, job);
  PLIMSOLL_CHECK(check_outputs(outputs.files(), inputs_of(request, job)));
  PLIMSOLL_CHECK(check_beside_data(outputs, job.data.path, "data.path"));
  return check_beside_data(outputs, job.data.held_out, "data.held_out");
}

Result<void> check_dumps(const TrainRequest& request, const ResolvedJob& job) {
  for (const auto& [option, path] :
       {std::pair("--dump-gradients", &request.gradients), std::pair("--dump-batches", &request.batches)})
    if (*path && is_descriptor(**path))
      return fail({.position = {.file = option},
                   .message = "standard output is the ranks' own",
                   .expected = "a file to write to"});
  if (job.mesh.world == 1) return {};
  if (request.batches)
    return fail({.position = {.file = "--dump-batches"},
                 .message = fmt::format("the batch is divided among {} ranks", job.mesh.world),
                 .expected = "one rank"});
  if (request.gradients && job.zero.stage > 0)
    return fail({.position = {.file = "--dump-gradients"},
                 .message = "gradients are divided among the ranks",
                 .expected = "one rank, or zero.stage 0"});
  return {};
}

}  // namespace plimsoll
