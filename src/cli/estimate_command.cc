#include "cli/estimate_command.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <thread>

#include "cli/job_options.h"
#include "cli/output_file.h"
#include "estimate/estimate.h"
#include "hardware/name_match.h"
#include "report/estimate_json.h"
#include "report/estimate_page.h"
#include "simulator/event_trace.h"

namespace plimsoll {
namespace {

class EstimateCommand final : public Command {
 public:
  std::string_view name() const override { return "estimate"; }
  std::string_view summary() const override {
    return "Says whether a training job fits and where its bytes go";
  }

  std::vector<Argument> arguments() override {
    std::vector<Argument> arguments = job_.arguments();
    arguments.push_back({.name = "--json", .help = "the answer as JSON (docs/json.md)", .target = &as_json_});
    arguments.push_back({.name = "--fail-on",
                         .value = "VERDICT",
                         .help = "exit code 3 on this verdict or a worse one: oom, at-risk",
                         .target = &fail_on_});
    arguments.push_back({.name = "--all-changes",
                         .help = "tries every change of the checklist, however large the model",
                         .target = &tries_all_});
    arguments.push_back({.name = "--rank",
                         .value = "N",
                         .help = "of the ranks that differ (pipeline stages), from 0; otherwise the fullest",
                         .target = &rank_});
    arguments.push_back({.name = "--events",
                         .value = "FILE",
                         .help = "writes every allocation and free in order, as CSV (docs/json.md)",
                         .target = &events_});
    return arguments;
  }

  Result<int> run() override {
    PLIMSOLL_TRY(threshold, fail_threshold());
    PLIMSOLL_CHECK(check_outputs(outputs(), job_.inputs()));
    PLIMSOLL_TRY(loaded, load_job(job_));
    PLIMSOLL_TRY(rank, chosen_rank(loaded.job));
    const EstimateRequest request{.architecture = loaded.architecture,
                                  .job = loaded.job,
                                  .gpu = loaded.gpu,
                                  .node = loaded.cluster.node,
                                  .rank = rank};
    PLIMSOLL_TRY(run, run_estimate(request));
    if (events_) PLIMSOLL_CHECK(write_events(run));
    const Improvements improvements =
        find_improvements(request, run, {.tries_all = tries_all_, .threads = thread_count()});
    const std::string text =
        as_json_ ? estimate_json(run, improvements) : estimate_page(run.estimate, improvements);
    print_answer(text, as_json_, stream_beside(outputs()));
    return threshold && run.estimate.verdict.worst() >= *threshold ? kVerdictFailed : kAnswered;
  }

 private:
  std::vector<OutputOption> outputs() const { return {{.name = "--events", .path = events_}}; }

  static unsigned thread_count() { return std::max(1U, std::thread::hardware_concurrency()); }

  Result<std::optional<Fit>> fail_threshold() const {
    if (!fail_on_) return std::optional<Fit>();
    const std::string verdict = normalized_name(*fail_on_);
    if (verdict == "oom") return std::optional(Fit::kOutOfMemory);
    if (verdict == "at-risk") return std::optional(Fit::kAtRisk);
    return fail({.position = {.file = "--fail-on"},
                 .message = "unknown verdict \"" + *fail_on_ + "\"",
                 .expected = "oom or at-risk"});
  }

  Result<std::optional<int64_t>> chosen_rank(const Job& job) const {
    if (!rank_) return std::optional<int64_t>();
    int64_t rank = 0;
    const auto [end, error] = std::from_chars(rank_->data(), rank_->data() + rank_->size(), rank);
    const bool is_number = error == std::errc() && end == rank_->data() + rank_->size();
    if (is_number && rank >= 0 && rank < job.parallel.pipeline) return std::optional(rank);
    return fail({.position = {.file = "--rank"},
                 .message = "there is no rank \"" + *rank_ + "\"",
                 .expected = "a pipeline stage, 0 to " + std::to_string(job.parallel.pipeline - 1)});
  }

  Result<void> write_events(const EstimateRun& run) const {
    return write_output_file(*events_,
                             [&](std::ostream& out) { write_event_trace(out, run.program, run.timeline); });
  }

  JobOptions job_;
  bool as_json_ = false, tries_all_ = false;
  std::optional<std::string> fail_on_, events_, rank_;
};

}  // namespace

std::unique_ptr<Command> make_estimate_command() { return std::make_unique<EstimateCommand>(); }

}  // namespace plimsoll
