#include "cli/explain_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "cli/job_options.h"
#include "cli/output_file.h"
#include "estimate/estimate.h"
#include "estimate/phases.h"
#include "estimate/recording.h"
#include "report/explain_page.h"
#include "strategy/names.h"
#include "trace/torch_snapshot_writer.h"
#include "trace/trace_event_writer.h"

namespace plimsoll {
namespace {

class ExplainCommand final : public Command {
 public:
  std::string_view name() const override { return "explain"; }
  std::string_view summary() const override { return "Shows who is alive at the peak of a phase"; }

  std::vector<Argument> arguments() override {
    std::vector<Argument> arguments = job_.arguments();
    arguments.push_back(
        {.name = "--phase",
         .value = "NAME",
         .help =
             "load, first_step, steady_step, evaluation, save, or a part of one such as bwd2; otherwise the "
             "one with the peak",
         .target = &phase_});
    arguments.push_back({.name = "--all", .help = "every holder, however small", .target = &shows_all_});
    arguments.push_back(
        {.name = "--json", .help = "the holders as JSON (docs/json.md)", .target = &as_json_});
    arguments.push_back(
        {.name = "--trace",
         .value = "FILE",
         .help = "writes Trace Event JSON of the whole run with memory counters, for ui.perfetto.dev",
         .target = &trace_});
    arguments.push_back({.name = "--snapshot",
                         .value = "FILE",
                         .help = "writes a memory snapshot of the whole run, for pytorch.org/memory_viz",
                         .target = &snapshot_});
    return arguments;
  }

  Result<int> run() override {
    PLIMSOLL_CHECK(check_outputs(outputs(), job_.inputs()));
    PLIMSOLL_TRY(loaded, load_job(job_));
    PLIMSOLL_TRY(run, run_estimate({.architecture = loaded.architecture,
                                    .job = loaded.job,
                                    .gpu = loaded.gpu,
                                    .node = loaded.cluster.node}));
    PLIMSOLL_TRY(phase, chosen_phase(run));
    PLIMSOLL_CHECK(write_files(run));
    const std::string text =
        as_json_
            ? explain_json(run, phase)
            : explain_page(run, phase, {.most_lines = shows_all_ ? SIZE_MAX : ExplainOptions().most_lines});
    print_answer(text, as_json_, stream_beside(outputs()));
    return kAnswered;
  }

 private:
  std::vector<OutputOption> outputs() const {
    return {{.name = "--trace", .path = trace_}, {.name = "--snapshot", .path = snapshot_}};
  }

  Result<PhaseEstimate> chosen_phase(const EstimateRun& run) const {
    const Estimate& e = run.estimate;
    if (!phase_) return e.peak_phase();
    std::vector<std::string_view> names;
    for (const PhaseEstimate& phase : e.phases) {
      if (is_same_name(name_of(phase.kind), *phase_)) return phase;
      names.push_back(name_of(phase.kind));
    }
    if (auto part = part_named(*phase_, run.program, run.timeline, run.shown, e.outside)) return *part;
    for (const PhaseMemory& part : run.timeline.phases)
      if (std::ranges::find(names, part.phase) == names.end()) names.push_back(part.phase);
    return fail({.position = {.file = "--phase"},
                 .message = fmt::format("the job has no phase \"{}\"", *phase_),
                 .expected = fmt::format("one of {}", fmt::join(names, ", "))});
  }

  Result<void> write_files(const EstimateRun& run) const {
    if (trace_)
      PLIMSOLL_CHECK(write_output_file(*trace_, [&](std::ostream& out) {
        TraceEventWriter writer(out);
        writer.add("rank 0", record_timeline(run));
        writer.finish();
      }));
    if (snapshot_)
      PLIMSOLL_CHECK(write_output_file(
          *snapshot_, [&](std::ostream& out) { write_torch_snapshot(record_snapshot(run), out); }));
    return {};
  }

  JobOptions job_;
  std::optional<std::string> phase_, trace_, snapshot_;
  bool shows_all_ = false, as_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_explain_command() { return std::make_unique<ExplainCommand>(); }

}  // namespace plimsoll
