#include "train/prepared_job.h"

#include <fmt/format.h>

#include <utility>

#include "base/data_dir.h"
#include "importers/hf_config/presets.h"
#include "strategy/job_file.h"
#include "strategy/resolve.h"
#include "train/file_checks.h"

namespace plimsoll {
namespace {

Result<Job> read_job(const TrainRequest& request) {
  Job job;
  job.framework = Framework::kNative;
  if (request.job_file) {
    PLIMSOLL_TRY(read, read_job_file(*request.job_file));
    job = std::move(read);
    if (!job.given.contains("framework")) job.framework = Framework::kNative;
  }
  for (const std::string& setting : request.settings) PLIMSOLL_CHECK(apply_setting(job, setting));
  if (job.framework != Framework::kNative)
    return fail({.position = {.key = "framework"},
                 .message = "plimsoll train runs framework native",
                 .expected = "native, or no framework in the job file"});
  if (job.model.name.empty())
    return fail({.message = "no model is given",
                 .expected = "model.name: a preset, a config.json or its folder",
                 .hint = "`plimsoll models` lists the presets"});
  return job;
}

// Without a number in the job, that of the processes which were started.
Result<void> set_ranks(Job& job, int64_t ranks) {
  const bool is_given = job.given.contains("hardware.gpus") || job.hardware.gpus != 1;
  if (is_given && job.hardware.gpus != ranks)
    return fail({.position = {.key = "hardware.gpus"},
                 .message = fmt::format("the job is one of {} ranks, {} started", job.hardware.gpus,
                                        ranks == 1 ? "1 was" : fmt::format("{} were", ranks)),
                 .expected = "as many processes as the job says, or no hardware.gpus in it",
                 .hint = fmt::format("`plimsoll train JOB --procs {}`", job.hardware.gpus)});
  job.hardware.gpus = ranks;
  return {};
}

// What would be without effect, and is more than a note: who asks for checkpoints relies on them.
Result<void> check_checkpoints(const RunSettings& run) {
  if (run.checkpoint_every == 0 || !run.checkpoints.empty()) return {};
  return fail({.position = {.key = "train.checkpoint_every"},
               .message = fmt::format("is {}, but there is no place for checkpoints", run.checkpoint_every),
               .expected = "train.checkpoints: a folder"});
}

}  // namespace

Result<PreparedJob> prepare(const TrainRequest& request, int64_t ranks, int64_t local_ranks) {
  PLIMSOLL_TRY(job, read_job(request));
  PLIMSOLL_CHECK(set_ranks(job, ranks));
  PLIMSOLL_TRY(architecture, read_model(job.model.name, data_dir(),
                                        {.layers = job.model.layers, .overrides = job.model.overrides}));
  PLIMSOLL_TRY(resolved,
               resolve(job, architecture, {.name = "this machine's CPU", .gpus_per_node = local_ranks}));
  PLIMSOLL_CHECK(check_checkpoints(job.run));
  PLIMSOLL_CHECK(check_dumps(request, resolved));
  PLIMSOLL_CHECK(check_files(request, job));
  return PreparedJob{
      .job = std::move(job), .architecture = std::move(architecture), .resolved = std::move(resolved)};
}

}  // namespace plimsoll
