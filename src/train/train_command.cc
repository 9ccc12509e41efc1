#include "train/train_command.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/data_dir.h"
#include "importers/hf_config/presets.h"
#include "runtime/training_run.h"
#include "strategy/job_file.h"
#include "strategy/resolve.h"
#include "train/batch_dump.h"
#include "train/batches.h"
#include "train/gradient_file.h"
#include "train/run_log.h"
#include "train/run_page.h"
#include "train/stored_weights.h"
#include "weights/model_weights.h"

namespace plimsoll {
namespace {

class TrainCommand final : public Command {
 public:
  std::string_view name() const override { return "train"; }
  std::string_view summary() const override {
    return "Trains a model on this machine with the plan that estimate prices";
  }
  std::string details() const override {
    return "\nThe job file's sections [train] and [data] say what is trained on and how long;\n"
           "`plimsoll help job train` lists them. The framework is native.";
  }

  std::vector<Argument> arguments() override {
    return {{.name = "JOB", .help = "job file (docs/job_file.md)", .target = &job_file_},
            {.name = "--set",
             .value = "FIELD=VALUE",
             .help = "any field of the job file (`plimsoll help job`); may be given more than once",
             .target = &settings_},
            {.name = "--dump-gradients",
             .value = "FILE",
             .help = "writes the first step's gradients before clipping, as safetensors",
             .target = &gradients_},
            {.name = "--dump-batches",
             .value = "FILE",
             .help = "writes the tokens that are trained on, a line for each sequence",
             .target = &batches_}};
  }

  Result<int> run() override {
    PLIMSOLL_TRY(job, read_job());
    PLIMSOLL_TRY(architecture, read_model(job.model.name, data_dir(),
                                          {.layers = job.model.layers, .overrides = job.model.overrides}));
    PLIMSOLL_TRY(resolved, resolve(job, architecture, {.name = "this machine's CPU", .gpus_per_node = 1}));
    if (resolved.mesh.world > 1)
      return fail({.position = {.key = "hardware.gpus"},
                   .message = "plimsoll train runs one process so far",
                   .expected = "1"});
    at::set_num_threads(thread_count(resolved));
    PLIMSOLL_CHECK(train(architecture, resolved));
    return kAnswered;
  }

 private:
  Result<Job> read_job() const {
    Job job;
    job.framework = Framework::kNative;
    if (job_file_) {
      PLIMSOLL_TRY(read, read_job_file(*job_file_));
      job = std::move(read);
      if (!job.given.contains("framework")) job.framework = Framework::kNative;
    }
    for (const std::string& setting : settings_) PLIMSOLL_CHECK(apply_setting(job, setting));
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

  static int thread_count(const ResolvedJob& job) {
    if (job.run.threads > 0) return static_cast<int>(job.run.threads);
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }

  Result<void> train(const Architecture& architecture, const ResolvedJob& job) {
    PLIMSOLL_TRY(batches, Batches::open(job, architecture.vocab, 0));
    std::optional<ModelWeights> stored;
    runtime::WeightSource weights = runtime::fresh_weights(architecture, static_cast<uint64_t>(job.run.seed));
    if (!job.run.weights.empty()) {
      PLIMSOLL_TRY(opened, ModelWeights::open(job.run.weights));
      stored = std::move(opened);
      PLIMSOLL_TRY(source, stored_weights(*stored, architecture));
      weights = std::move(source);
    }
    PLIMSOLL_TRY(run, runtime::TrainingRun::make(
                          {.architecture = architecture, .job = job, .weights = std::move(weights)}));
    PLIMSOLL_TRY(log, RunLog::open(job));
    PLIMSOLL_CHECK(run->load());
    PLIMSOLL_TRY(dump, BatchDump::open(batches_));
    const runtime::BatchSource source = [&](int64_t step, int64_t m, at::Tensor& ids,
                                            at::Tensor& labels) -> Result<void> {
      PLIMSOLL_CHECK(batches.fill(step, m, ids, labels));
      return dump.write(ids, labels);
    };
    while (run->steps_done() < job.run.steps) {
      if (gradients_ && run->steps_done() == 0)
        run->after_backward = [&] { return write_gradients(*run, architecture, *gradients_); };
      PLIMSOLL_TRY(step, run->step(source));
      run->after_backward = nullptr;
      PLIMSOLL_CHECK(log.add(step));
    }
    log.finish();
    print_answer(run_page(architecture, job, *run, log), false);
    return {};
  }

  std::optional<std::string> job_file_, gradients_, batches_;
  std::vector<std::string> settings_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace plimsoll
