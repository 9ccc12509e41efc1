#include "cli/replay_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "allocator/allocator_settings.h"
#include "cli/chosen_device.h"
#include "cli/device_options.h"
#include "cli/output_file.h"
#include "importers/kineto_trace/kineto_trace.h"
#include "importers/memory_stats/memory_stats.h"
#include "importers/memory_stats/memory_summary.h"
#include "importers/oom_text/memory_failures.h"
#include "importers/oom_text/oom_text.h"
#include "importers/recording.h"
#include "importers/torch_snapshot/torch_snapshot.h"
#include "replay/recorded_timeline.h"
#include "report/memory_failure_page.h"
#include "report/memory_stats_page.h"
#include "report/oom_page.h"
#include "report/profiled_memory_page.h"
#include "report/replay_page.h"
#include "trace/torch_snapshot_writer.h"
#include "trace/trace_event_writer.h"

namespace plimsoll {
namespace {

// "expandable_segments:True" of a line that sets the variable, as pasted from a script.
std::string without_variable(std::string_view text) {
  constexpr std::string_view kExport = "export ";
  if (text.starts_with(kExport)) text.remove_prefix(kExport.size());
  for (const std::string_view name :
       {"PYTORCH_ALLOC_CONF=", "PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_HIP_ALLOC_CONF="})
    if (text.starts_with(name)) return std::string(text.substr(name.size()));
  return std::string(text);
}

class ReplayCommand final : public Command {
 public:
  std::string_view name() const override { return "replay"; }
  std::string_view summary() const override {
    return "Explains a memory snapshot and plays it again; explains an out-of-memory error";
  }

  std::vector<Argument> arguments() override {
    std::vector<Argument> arguments = {
        {.name = "FILE",
         .help =
             "of torch.cuda.memory._dump_snapshot(), plain or gzip; nothing in it is run. Or a trace of the "
             "profiler, the JSON of torch.cuda.memory_stats(), a table of memory_summary(), the text of an "
             "out-of-memory error; - for standard input",
         .target = &file_},
        {.name = "--alloc-conf",
         .value = "CONF",
         .help = "plays the same requests under this PYTORCH_ALLOC_CONF too; may be given more than once",
         .target = &configurations_},
        {.name = "--device",
         .value = "N",
         .help = "of a snapshot of several devices only this one",
         .target = &chosen_device_},
        {.name = "--all", .help = "every line of code that held memory", .target = &shows_all_},
        {.name = "--json", .help = "as JSON (docs/json.md)", .target = &as_json_},
        {.name = "--trace",
         .value = "FILE",
         .help = "writes Trace Event JSON with memory counters, for ui.perfetto.dev",
         .target = &trace_},
        {.name = "--out",
         .value = "FILE",
         .help = "writes the snapshot anew, for pytorch.org/memory_viz",
         .target = &out_}};
    const std::vector<Argument> device = device_.arguments();
    arguments.insert(arguments.begin() + 2, device.begin(), device.end());
    return arguments;
  }

  std::string subject() const override { return file_.value_or("the snapshot"); }

  Result<int> run() override {
    if (!file_) return fail({.message = "no file is named", .expected = "plimsoll replay snapshot.pickle"});
    std::ranges::transform(configurations_, configurations_.begin(), without_variable);
    PLIMSOLL_CHECK(check_outputs(outputs(), {*file_}));
    PLIMSOLL_TRY(device, device_.device());
    PLIMSOLL_TRY(options, analysis_options(device));
    PLIMSOLL_TRY(recording, open_recording(*file_));
    options.file = recording.name;
    if (recording.format == RecordingFormat::kTorchSnapshot)
      return explain_snapshot(recording, options, device ? device->text : "");
    PLIMSOLL_TRY(notes, notes_of_options(recording));
    PLIMSOLL_TRY(text, explained(recording, notes));
    print_answer(text, as_json_);
    return kAnswered;
  }

 private:
  std::vector<OutputOption> outputs() const {
    return {{.name = "--trace", .path = trace_}, {.name = "--out", .path = out_}};
  }

  Result<int> explain_snapshot(const Recording& recording, const AnalysisOptions& options,
                               const std::string& device_text) {
    PLIMSOLL_TRY(snapshot,
                 read_torch_snapshot(*recording.source, recording.name, {.on_progress = show_progress}));
    clear_progress();
    if (snapshot.devices.empty())
      return fail({.position = {.file = recording.name},
                   .message = "holds no memory of any device",
                   .expected = "segments or events",
                   .hint = "was torch.cuda.memory._record_memory_history() called before the run?"});
    PLIMSOLL_CHECK(keep_chosen_device(snapshot, recording.name));
    std::vector<DeviceReplay> devices;
    for (const AllocationTrace& trace : snapshot.devices) {
      PLIMSOLL_TRY(analysis, analyze(trace, options));
      devices.push_back({.trace = &trace, .analysis = std::move(analysis)});
    }
    if (trace_) PLIMSOLL_CHECK(write_trace(snapshot));
    if (out_)
      PLIMSOLL_CHECK(
          write_output_file(*out_, [&](std::ostream& out) { write_torch_snapshot(snapshot.devices, out); }));
    print(recording.name, devices, snapshot.imperfections, device_text);
    return kAnswered;
  }

  Result<void> keep_chosen_device(TorchSnapshot& snapshot, const std::string& file) const {
    if (!chosen_device_) return {};
    PLIMSOLL_TRY(at, find_device(snapshot, *chosen_device_, file));
    std::swap(snapshot.devices[0], snapshot.devices[at]);
    snapshot.devices.resize(1);
    return {};
  }

  // What only a snapshot's requests can answer.
  Result<std::vector<std::string>> notes_of_options(const Recording& recording) const {
    for (const auto& [option, file] : {std::pair("--out", &out_), std::pair("--trace", &trace_)})
      if (*file)
        return fail(
            {.position = {.file = option},
             .message = fmt::format("{} is no snapshot, so nothing can be written of it", recording.name),
             .expected = "a snapshot by torch.cuda.memory._dump_snapshot()"});
    std::vector<std::string> notes;
    constexpr std::string_view kNeeds =
        "has no effect: it plays the requests of a snapshot, which this file isn't";
    if (!configurations_.empty()) notes.push_back(fmt::format("--alloc-conf {}", kNeeds));
    if (chosen_device_) notes.push_back("--device has no effect: it is of snapshots, which this file isn't");
    for (const std::string& option : device_.given()) notes.push_back(fmt::format("{} {}", option, kNeeds));
    return notes;
  }

  Result<std::string> explained(const Recording& recording, const std::vector<std::string>& notes) {
    const std::string& name = recording.name;
    if (recording.format == RecordingFormat::kKinetoTrace) {
      PLIMSOLL_TRY(memory, read_kineto_trace(*recording.source, name, show_progress));
      clear_progress();
      if (as_json_) return profiled_memory_json(name, memory, notes);
      return profiled_memory_page(name, memory, notes, {.most_blocks = shows_all_ ? SIZE_MAX : 15});
    }
    if (recording.format == RecordingFormat::kMemoryStats) {
      PLIMSOLL_TRY(stats, read_memory_stats(*recording.text, name));
      stats.notes.insert(stats.notes.end(), notes.begin(), notes.end());
      return as_json_ ? memory_stats_json(name, {stats}) : memory_stats_page(name, stats);
    }
    if (recording.format == RecordingFormat::kMemorySummary) {
      PLIMSOLL_TRY(devices, read_memory_summaries(*recording.text, name));
      for (const std::string& note : notes) devices[0].notes.push_back(note);
      return as_json_ ? memory_stats_json(name, devices) : pages_of(name, devices);
    }
    return explained_text(name, *recording.text, notes);
  }

  // Of a log whatever stands in it.
  Result<std::string> explained_text(const std::string& name, const std::string& text,
                                     std::vector<std::string> notes) const {
    std::vector<MemoryFailure> failures = find_memory_failures(text);
    auto messages = sniff_oom_text(text) ? read_oom_text(text, name) : std::vector<OutOfMemoryMessage>();
    if (!messages) return tl::unexpected(messages.error());
    if (messages->empty() && failures.empty())
      return fail({.position = {.file = name},
                   .message = "the out-of-memory error names no size",
                   .expected = "\"Tried to allocate\" and a size such as 20.00 MiB"});
    if (messages->empty())
      return as_json_ ? oom_json(name, {}, failures, notes) : memory_failure_page(name, failures, notes);
    std::erase_if(failures, [](const MemoryFailure& failure) {
      return failure.kind == MemoryFailureKind::kCut;  // that one is explained
    });
    if (as_json_) {
      if (sniff_memory_summary(text))
        notes.emplace_back("the text holds tables of torch.cuda.memory_summary() too, which the page shows");
      return oom_json(name, *messages, failures, notes);
    }
    for (const MemoryFailure& failure : failures) notes.push_back(note_of(failure));
    const std::string page = oom_page(name, *messages, notes);
    if (!sniff_memory_summary(text)) return page;
    PLIMSOLL_TRY(devices, read_memory_summaries(text, name));
    return page + "\n" + pages_of(name, devices);
  }

  static std::string pages_of(const std::string& name, const std::vector<RecordedMemoryStats>& devices) {
    std::string text;
    for (const RecordedMemoryStats& stats : devices)
      text += (text.empty() ? "" : "\n") + memory_stats_page(name, stats);
    return text;
  }

  Result<AnalysisOptions> analysis_options(const std::optional<PlayedDevice>& device) const {
    constexpr size_t kSuggestedUpTo = 3'000'000;  // events: some seconds
    AnalysisOptions options{.what_if = configurations_, .suggests_up_to = kSuggestedUpTo};
    for (const std::string& configuration : configurations_)
      PLIMSOLL_CHECK(parse_allocator_settings(configuration, "--alloc-conf"));
    if (!device) return options;
    options.capacity = device->for_allocator();
    options.device = device->total;
    return options;
  }

  Result<void> write_trace(const TorchSnapshot& snapshot) const {
    std::vector<Timeline> timelines;
    for (const AllocationTrace& trace : snapshot.devices) {
      PLIMSOLL_TRY(timeline, recorded_timeline(trace));
      timelines.push_back(std::move(timeline));
    }
    return write_output_file(*trace_, [&](std::ostream& out) {
      TraceEventWriter writer(out);
      for (size_t i = 0; i < timelines.size(); ++i)
        writer.add(fmt::format("device {}", snapshot.devices[i].device), timelines[i]);
      writer.finish();
    });
  }

  void print(const std::string& file, const std::vector<DeviceReplay>& devices,
             const std::vector<TraceImperfection>& imperfections, const std::string& device_text) {
    std::string text;
    if (as_json_) {
      text = replay_json(file, devices, imperfections);
    } else {
      for (const DeviceReplay& device : devices)
        text += (text.empty() ? "" : "\n") +
                replay_page(file, device,
                            {.most_lines = shows_all_ ? SIZE_MAX : ReplayPageOptions().most_lines,
                             .device_text = device_text});
      if (!imperfections.empty()) text += "\nNotes\n";
      for (const TraceImperfection& i : imperfections) text += fmt::format("  {} {}\n", i.count, i.what);
    }
    print_answer(text, as_json_, stream_beside(outputs()));
  }

  static void show_progress(uint64_t bytes) {
    if (isatty(STDERR_FILENO) == 0) return;
    std::fputs(fmt::format("\r\033[Kplimsoll: {} read", to_text(Bytes{static_cast<int64_t>(bytes)})).c_str(),
               stderr);
    std::fflush(stderr);
  }
  static void clear_progress() {
    if (isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
  }

  std::optional<std::string> file_, trace_, out_, chosen_device_;
  DeviceOptions device_;
  std::vector<std::string> configurations_;
  bool shows_all_ = false, as_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_replay_command() { return std::make_unique<ReplayCommand>(); }

}  // namespace plimsoll
