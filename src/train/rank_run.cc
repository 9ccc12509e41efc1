#include "train/rank_run.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "base/data_dir.h"
#include "cli/command.h"
#include "importers/hf_config/presets.h"
#include "runtime/communication/gloo.h"
#include "runtime/communication/texts.h"
#include "runtime/cores.h"
#include "runtime/machine_memory.h"
#include "runtime/machine_peak.h"
#include "runtime/resident_memory.h"
#include "runtime/training_run.h"
#include "strategy/job_file.h"
#include "strategy/usage.h"
#include "train/agreement.h"
#include "train/batch_dump.h"
#include "train/batches.h"
#include "train/checkpoints.h"
#include "train/found_files.h"
#include "train/gradient_file.h"
#include "train/model_config.h"
#include "train/recording_files.h"
#include "train/run_log.h"
#include "train/run_page.h"
#include "train/stored_weights.h"
#include "weights/model_weights.h"

namespace plimsoll {
namespace {

using runtime::Communicator;
using runtime::TrainingRun;

Result<int> thread_count(const ResolvedJob& job, Communicator& communicator) {
  if (job.run.threads > 0) return static_cast<int>(job.run.threads);
  PLIMSOLL_TRY(cores, runtime::cores_of_rank(communicator));
  return static_cast<int>(cores);
}

// A rank between its start and the end of training.
class RankRun {
 public:
  RankRun(const TrainRequest& request, const runtime::ProcessPlace& place, Communicator& communicator)
      : request_(request), place_(place), communicator_(communicator) {}

  Result<int> run() {
    Result<void> opened = open();
    std::vector<Fact> facts;
    if (opened && communicator_.size() > 1) opened = find_facts(facts);
    const Result<void> agreed = agree(communicator_, opened, facts);
    if (!agreed) return end_together(communicator_, agreed.error());
    PLIMSOLL_TRY(threads, thread_count(prepared_->resolved, communicator_));
    at::set_num_threads(threads);
    PLIMSOLL_CHECK(measure_machine());
    PLIMSOLL_CHECK(run_->load());
    const Result<void> restored = checkpoints_->restore(*run_, *batches_);
    if (!restored) return end_together(communicator_, restored.error());
    say_where_it_begins();
    if (run_->steps_done() >= prepared_->resolved.run.steps) return say_nothing_is_left();
    const Result<void> trained = train();
    const Result<void> kept = keep_recording();  // of a run that ended early
    const bool is_known_to_all = run_->is_loss_wrong() || checkpoints_->is_save_wrong();
    if (!trained && is_known_to_all) return end_together(communicator_, trained.error());
    PLIMSOLL_CHECK(trained);
    PLIMSOLL_CHECK(kept);
    return print_page();
  }

 private:
  // Everything that may be wrong before anything runs.
  Result<void> open() {
    PLIMSOLL_TRY(prepared, prepare(request_, place_.size, place_.local_size));
    prepared_ = std::make_unique<PreparedJob>(std::move(prepared));
    const ResolvedJob& job = prepared_->resolved;
    const Architecture& architecture = prepared_->architecture;
    PLIMSOLL_CHECK(open_checkpoints());
    PLIMSOLL_TRY(batches, Batches::open(job, architecture.vocab, place_.rank));
    batches_ = std::move(batches);
    PLIMSOLL_CHECK(open_held_out());
    std::vector<CorpusFormat> formats{batches_->corpus().format()};
    if (held_out_) formats.push_back(held_out_->corpus().format());
    PLIMSOLL_CHECK(check_data_fields(job.data, formats));
    PLIMSOLL_TRY(source, weights());
    PLIMSOLL_TRY(run, TrainingRun::make({.architecture = architecture,
                                         .job = job,
                                         .weights = std::move(source),
                                         .communicator = &communicator_}));
    run_ = std::move(run);
    PLIMSOLL_CHECK(check_memory());
    PLIMSOLL_CHECK(checkpoints_->prepare_folder());
    if (request_.recording) {
      PLIMSOLL_CHECK(open_recording_folder(*request_.recording, place_));
      run_->start_recording();
    }
    PLIMSOLL_TRY(log, place_.rank == 0 ? RunLog::open(job) : RunLog::silent(job));
    log_ = std::move(log);
    PLIMSOLL_TRY(dump, BatchDump::open(request_.batches));
    dump_ = std::move(dump);
    return {};
  }

  // What has to be the same on all ranks, though each has read it itself.
  Result<void> find_facts(std::vector<Fact>& facts) const {
    facts.push_back({.name = "the job", .value = to_toml(prepared_->job)});
    facts.push_back({.name = "the model's configuration", .value = checkpoints_->model_config()});
    facts.push_back({.name = "the checkpoint that is gone on from", .value = checkpoints_->found_text()});
    PLIMSOLL_TRY(data, found_text(batches_->corpus()));
    facts.push_back({.name = "what data.path holds", .value = std::move(data)});
    if (held_out_) {
      PLIMSOLL_TRY(held_out, found_text(held_out_->corpus()));
      facts.push_back({.name = "what data.held_out holds", .value = std::move(held_out)});
    }
    if (stored_) {
      PLIMSOLL_TRY(weights, found_text(*stored_));
      facts.push_back({.name = "the weights to begin with", .value = std::move(weights)});
    }
    return {};
  }

  // Nothing has been allocated yet.
  Result<void> check_memory() const {
    const std::optional<runtime::MachineMemory> machine = runtime::machine_memory();
    if (!machine) return {};
    const Bytes wanted = run_->predicted_memory() * place_.local_size;
    const std::string plan = fmt::format("the plan takes {} on this machine ({} on each of {} rank{})",
                                         to_gib_text(wanted), to_gib_text(run_->predicted_memory()),
                                         place_.local_size, place_.local_size == 1 ? "" : "s");
    if (wanted > machine->total)
      return fail(
          {.message =
               fmt::format("{}, which has {} ({})", plan, to_gib_text(machine->total), machine->source),
           .expected = "a job that fits",
           .hint =
               "fewer tokens at a time, recompute.mode, zero.stage, offload to disk, or a smaller model"});
    if (wanted > machine->available && place_.local_rank == 0)
      std::fputs(
          fmt::format("note: {}, of which {} are free now\n", plan, to_gib_text(machine->available)).c_str(),
          stderr);
    return {};
  }

  Result<void> open_held_out() {
    const ResolvedJob& job = prepared_->resolved;
    if (job.data.held_out.empty()) {
      if (job.run.evaluate_every == 0) return {};
      return fail({.position = {.key = "train.evaluate_every"},
                   .message = "nothing is held out for evaluations",
                   .expected = "data.held_out: a file or a folder"});
    }
    if (!job.loop.has_evaluation)
      return fail({.position = {.key = "data.held_out"},
                   .message = "the job has no evaluation",
                   .expected = "loop.evaluation true"});
    PLIMSOLL_TRY(batches, Batches::open_held_out(job, prepared_->architecture.vocab, place_.rank));
    held_out_ = std::move(batches);
    return {};
  }

  // All ranks at the same time: those of one machine share it.
  Result<void> measure_machine() {
    const DType dtype = parameter_dtype(prepared_->resolved.precision);
    const double own = runtime::measure_peak_flops(dtype == DType::kBFloat16 ? at::kBFloat16 : at::kFloat);
    at::Tensor all = at::full({1}, own, at::TensorOptions(at::kFloat));
    PLIMSOLL_CHECK(communicator_.all_reduce(all)->wait());
    log_->set_cost(
        {.model_flops = static_cast<double>(run_->flops_per_step().value), .peak_flops = all.item<double>()});
    runtime::MeasuredAllocator::drop_kept();
    resident_before_ = runtime::resident_memory().now;
    return {};
  }

  Result<void> open_checkpoints() {
    const auto& [job, architecture, resolved] = *prepared_;
    PLIMSOLL_TRY(file, find_model_config(job.model.name, data_dir()));
    PLIMSOLL_TRY(config, model_config_text(file, job.model.overrides, architecture));
    PLIMSOLL_TRY(checkpoints, Checkpoints::open({.job = resolved,
                                                 .architecture = architecture,
                                                 .model_config = std::move(config),
                                                 .job_text = to_toml(job),
                                                 .communicator = &communicator_}));
    checkpoints_.emplace(std::move(checkpoints));
    return {};
  }

  void say_where_it_begins() const {
    if (place_.rank != 0) return;
    const auto say = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
    const auto say_notes = [&](const std::vector<std::string>& notes) {
      for (const std::string& note : notes) say("note: " + note);
    };
    say_notes(notes_on_optimizer(prepared_->job));
    say_notes(notes_on_training(prepared_->job));
    say_notes(batches_->corpus().notes());
    if (held_out_) say_notes(held_out_->corpus().notes());
    if (stored_) say_notes(stored_->notes());
    say_notes(notes_on_weights());
    if (!checkpoints_->resumes()) return;
    say(fmt::format("goes on after step {} from {}", run_->steps_done(), checkpoints_->weights().string()));
    say_notes(checkpoints_->notes());
  }

  std::vector<std::string> notes_on_weights() const {
    const auto& [job, architecture, resolved] = *prepared_;
    if (checkpoints_->resumes() && !job.run.weights.empty())
      return {
          fmt::format("train.weights isn't read: the run goes on from {}", checkpoints_->weights().string())};
    if (stored_ || !ModelWeights::open(job.model.name)) return {};
    return {
        fmt::format("{} holds weights, which aren't read: the run begins with {}; train.weights = \"{}\" "
                    "begins with them",
                    job.model.name, weights_text(), job.model.name)};
  }
  // What the run began with, for notes and the page.
  std::string weights_text() const {
    const RunSettings& run = prepared_->resolved.run;
    if (checkpoints_->resumes()) return checkpoints_->weights().string();
    return run.weights.empty() ? fmt::format("fresh weights from seed {}", run.seed) : run.weights;
  }

  Result<int> say_nothing_is_left() const {
    if (place_.rank == 0)
      print_answer(
          fmt::format("Nothing is left to do: train.steps is {}, and {} is after step {}.\n",
                      prepared_->resolved.run.steps, checkpoints_->last().string(), run_->steps_done()),
          false);
    return kAnswered;
  }

  Result<runtime::WeightSource> weights() {
    const RunSettings& run = prepared_->resolved.run;
    const std::filesystem::path path =
        checkpoints_->resumes() ? checkpoints_->weights() : std::filesystem::path(run.weights);
    if (path.empty()) return runtime::fresh_weights(prepared_->architecture, static_cast<uint64_t>(run.seed));
    PLIMSOLL_TRY(opened, ModelWeights::open(path));
    stored_ = std::move(opened);
    return stored_weights(*stored_, prepared_->architecture);
  }

  Result<void> train() {
    const runtime::BatchSource source = [&](int64_t step, int64_t m, at::Tensor& ids,
                                            at::Tensor& labels) -> Result<void> {
      PLIMSOLL_CHECK(batches_->fill(step, m, ids, labels));
      return dump_->write(ids, labels);
    };
    first_step_ = run_->steps_done();
    while (run_->steps_done() < prepared_->resolved.run.steps) {
      if (request_.gradients && place_.rank == 0 && run_->steps_done() == 0)
        run_->after_backward = [&] {
          return write_gradients(*run_, prepared_->architecture, *request_.gradients);
        };
      Result<runtime::StepReport> played = run_->step(source);
      if (!played) return fail(with_hint(played.error()));
      runtime::StepReport step = *std::move(played);
      run_->after_backward = nullptr;
      if (!run_->is_recording()) PLIMSOLL_CHECK(keep_recording());
      PLIMSOLL_CHECK(evaluate_after(step));
      PLIMSOLL_CHECK(log_->add(step));
      PLIMSOLL_CHECK(checkpoints_->after_step(*run_, *batches_, step.loss));
    }
    return {};
  }

  // Settings of the updates have no part in the loss of the first step.
  Error with_hint(Error error) const {
    if (run_->is_loss_wrong() && run_->steps_done() == first_step_)
      error.hint =
          fmt::format("no update was made before it: look at the weights ({}) and the data", weights_text());
    return error;
  }

  // Once, as soon as there is all of it.
  Result<void> keep_recording() {
    if (!request_.recording || is_recording_kept_) return {};
    is_recording_kept_ = true;
    return write_recording(*run_, recording_files(*request_.recording, place_.rank));
  }

  Result<void> evaluate_after(runtime::StepReport& step) {
    if (!held_out_) return {};
    const RunSettings& run = prepared_->resolved.run;
    const bool is_due = run.evaluate_every > 0 && step.step % run.evaluate_every == 0;
    if (!is_due && step.step < run.steps) return {};
    const runtime::BatchSource source = [&](int64_t s, int64_t m, at::Tensor& ids, at::Tensor& labels) {
      return held_out_->fill(s, m, ids, labels);
    };
    PLIMSOLL_TRY(loss, run_->evaluate(source, held_out_->whole_steps()));
    step.evaluation_loss = loss;
    return {};
  }

  Result<int> print_page() {
    log_->finish();
    PLIMSOLL_TRY(memory, runtime::gather_texts(communicator_, memory_row(*run_)));
    PLIMSOLL_TRY(resident, runtime::gather_texts(communicator_, resident_row(resident_before_)));
    if (place_.rank == 0)
      print_answer(run_page(prepared_->architecture, prepared_->resolved, *run_, *log_,
                            {.memory = memory, .resident = resident},
                            {.weights = weights_text(),
                             .held_out = held_out_text(),
                             .checkpoints = checkpoints_->last().string()}),
                   false);
    return kAnswered;
  }
  std::string held_out_text() const {
    if (!held_out_) return {};
    const int64_t all = held_out_->corpus().windows();
    const int64_t whole = held_out_->whole_steps() * prepared_->resolved.batch.global_batch;
    return fmt::format("{} of {} sequences{}", whole, all, whole == all ? "" : ", whole batches only");
  }

  const TrainRequest& request_;
  const runtime::ProcessPlace& place_;
  Communicator& communicator_;
  std::unique_ptr<PreparedJob> prepared_;  // the rest refers to it
  std::optional<Checkpoints> checkpoints_;
  std::optional<Batches> batches_, held_out_;
  std::optional<ModelWeights> stored_;
  std::unique_ptr<TrainingRun> run_;
  std::optional<RunLog> log_;
  std::optional<BatchDump> dump_;
  bool is_recording_kept_ = false;
  int64_t first_step_ = 0;  // done before this run
  Bytes resident_before_;   // with the libraries' code and threads, before the model
};

// Launchers other than our own don't say whose words these are.
Error named(Error error, const runtime::ProcessPlace& place) {
  if (place.size > 1 && place.launcher != "plimsoll")
    error.message = fmt::format("rank {}: {}", place.rank, error.message);
  return error;
}

}  // namespace

Result<int> run_rank(const TrainRequest& request, const runtime::ProcessPlace& place) {
  runtime::MeasuredAllocator::install();
  PLIMSOLL_TRY(communicator, runtime::make_gloo_communicator(place, {}));
  RankRun run(request, place, *communicator);
  Result<int> code = run.run();
  if (!code) return fail(named(code.error(), place));
  return code;
}

}  // namespace plimsoll
