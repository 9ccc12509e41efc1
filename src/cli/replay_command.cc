#include "cli/replay_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/output_file.h"
#include "importers/torch_snapshot/torch_snapshot.h"
#include "replay/recorded_timeline.h"
#include "report/replay_page.h"
#include "trace/torch_snapshot_writer.h"
#include "trace/trace_event_writer.h"

namespace plimsoll {
namespace {

class ReplayCommand final : public Command {
 public:
  std::string_view name() const override { return "replay"; }
  std::string_view summary() const override {
    return "Explains a recorded memory snapshot and plays it again";
  }

  std::vector<Argument> arguments() override {
    return {{.name = "SNAPSHOT",
             .help = "file of torch.cuda.memory._dump_snapshot(), plain or gzip; nothing in it is run",
             .target = &file_},
            {.name = "--alloc-conf",
             .value = "CONF",
             .help = "plays the same requests under this PYTORCH_ALLOC_CONF too; may be given more than once",
             .target = &configurations_},
            {.name = "--capacity",
             .value = "SIZE",
             .help = "of the device, such as 40GiB: would it have run out, and where",
             .target = &capacity_},
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
  }

  Result<int> run() override {
    if (!file_)
      return fail({.message = "no snapshot is named", .expected = "plimsoll replay snapshot.pickle"});
    PLIMSOLL_TRY(options, analysis_options());
    PLIMSOLL_TRY(snapshot, read_torch_snapshot(*file_, {.on_progress = show_progress}));
    clear_progress();
    if (snapshot.devices.empty())
      return fail({.position = {.file = *file_},
                   .message = "holds no memory of any device",
                   .expected = "segments or events",
                   .hint = "was torch.cuda.memory._record_memory_history() called before the run?"});
    std::vector<DeviceReplay> devices;
    for (const AllocationTrace& trace : snapshot.devices) {
      PLIMSOLL_TRY(analysis, analyze(trace, options));
      devices.push_back({.trace = &trace, .analysis = std::move(analysis)});
    }
    if (trace_) PLIMSOLL_CHECK(write_trace(snapshot));
    if (out_)
      PLIMSOLL_CHECK(write_output_file(
          *out_, [&](std::ostream& out) { write_torch_snapshot(snapshot.devices[0], out); }));
    print(devices, snapshot.imperfections);
    return kAnswered;
  }

 private:
  Result<AnalysisOptions> analysis_options() const {
    AnalysisOptions options{.what_if = configurations_};
    if (capacity_) {
      const std::optional<Bytes> capacity = parse_bytes(*capacity_);
      if (!capacity || capacity->value <= 0)
        return fail({.position = {.file = "--capacity"},
                     .message = fmt::format("\"{}\" is no size of memory", *capacity_),
                     .expected = "a number with a unit, such as 40GiB or 42949672960B"});
      options.capacity = capacity;
      if (options.what_if.empty()) options.what_if = {""};
    }
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

  void print(const std::vector<DeviceReplay>& devices, const std::vector<TraceImperfection>& imperfections) {
    std::string text;
    if (as_json_) {
      text = replay_json(*file_, devices, imperfections);
    } else {
      for (const DeviceReplay& device : devices)
        text += (text.empty() ? "" : "\n") +
                replay_page(*file_, device,
                            {.most_lines = shows_all_ ? SIZE_MAX : ReplayPageOptions().most_lines});
      if (!imperfections.empty()) text += "\nNotes\n";
      for (const TraceImperfection& i : imperfections) text += fmt::format("  {} {}\n", i.count, i.what);
    }
    print_answer(text, as_json_);
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

  std::optional<std::string> file_, capacity_, trace_, out_;
  std::vector<std::string> configurations_;
  bool shows_all_ = false, as_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_replay_command() { return std::make_unique<ReplayCommand>(); }

}  // namespace plimsoll
