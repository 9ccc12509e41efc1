#include "cli/compare_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/chosen_device.h"
#include "importers/byte_source.h"
#include "importers/estimate_json/estimate_json.h"
#include "importers/recording.h"
#include "importers/torch_snapshot/torch_snapshot.h"
#include "report/memory_profile.h"

namespace plimsoll {
namespace {

constexpr size_t kSniffed = 512;
constexpr size_t kLargestEstimate = size_t{16} << 20;

class CompareCommand final : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "Sets two snapshots, or an estimate and a snapshot, side by side";
  }

  std::vector<Argument> arguments() override {
    return {
        {.name = "A",
         .help = "a memory snapshot, or what `plimsoll estimate ... --json` printed; - for standard input",
         .target = &a_},
        {.name = "B", .help = "what it is compared with", .target = &b_},
        {.name = "--device",
         .value = "N",
         .help = "of snapshots of several devices; by default the first that has memory",
         .target = &device_},
        {.name = "--all", .help = "every line of code, however small", .target = &shows_all_},
        {.name = "--json", .help = "as JSON (docs/json.md)", .target = &as_json_}};
  }

  std::string subject() const override {
    return fmt::format("{} and {}", a_.value_or("A"), b_.value_or("B"));
  }

  Result<int> run() override {
    if (!a_ || !b_)
      return fail(
          {.message = "two files are needed", .expected = "plimsoll compare plan.json snapshot.pickle"});
    if (*a_ == "-" && *b_ == "-")
      return fail({.message = "both files are standard input", .expected = "- for one of them at most"});
    PLIMSOLL_TRY(a, profile(*a_));
    PLIMSOLL_TRY(b, profile(*b_));
    constexpr size_t kFewLines = 20;
    const std::string text =
        as_json_ ? compare_json(a, b) : compare_page(a, b, shows_all_ ? SIZE_MAX : kFewLines);
    print_answer(text, as_json_);
    return kAnswered;
  }

 private:
  Result<MemoryProfile> profile(const std::string& path) {
    const std::string name = input_name(path);
    PLIMSOLL_TRY(source, open_decoded(path));
    if (sniff_estimate_json(source->look(kSniffed))) {
      PLIMSOLL_TRY(text, source->take_rest(kLargestEstimate, too_long(name)));
      PLIMSOLL_TRY(estimate, read_estimate_json(text, name));
      return profile_of_estimate(name, estimate);
    }
    const std::string_view start = source->look(kIdentified);
    if (source->error()) return tl::unexpected(*source->error());
    PLIMSOLL_CHECK(check_is_snapshot(start, name));
    PLIMSOLL_TRY(snapshot, read_torch_snapshot(*source, name));
    if (snapshot.devices.empty())
      return fail({.position = {.file = name}, .message = "holds no memory of any device"});
    const bool is_chosen = device_ && snapshot.devices.size() > 1;  // one device has no other
    PLIMSOLL_TRY(at, is_chosen ? find_device(snapshot, *device_, name) : Result<size_t>(0));
    const AllocationTrace& trace = snapshot.devices[at];
    PLIMSOLL_TRY(analysis, analyze(trace, {.file = name}));
    MemoryProfile profile = profile_of(name, trace, analysis);
    if (snapshot.devices.size() > 1 && !device_)
      profile.notes.push_back(fmt::format("{}: device {} of {} is compared (--device N takes another)", name,
                                          trace.device, devices_text(snapshot)));
    if (device_ && std::to_string(trace.device) != *device_)
      profile.notes.push_back(
          fmt::format("{}: --device has no effect, device {} is the only one", name, trace.device));
    return profile;
  }

  static Error too_long(const std::string& path) {
    return {.position = {.file = path},
            .message = fmt::format("is longer than {} bytes", kLargestEstimate),
            .expected = "what `plimsoll estimate ... --json` prints"};
  }

  static Result<void> check_is_snapshot(std::string_view first_bytes, const std::string& path) {
    const FileIdentity file = identify(first_bytes);
    if (file.format == RecordingFormat::kTorchSnapshot) return {};
    const bool is_recording = file.format.has_value();
    return fail(
        {.position = {.file = path},
         .message = file.text.empty() ? "is neither a memory snapshot nor an estimate"
                                      : fmt::format("is {}, which can't be compared", file.text),
         .expected = "a snapshot by torch.cuda.memory._dump_snapshot() or `plimsoll explain --snapshot`, "
                     "or what `plimsoll estimate ... --json` printed",
         .hint = is_recording ? fmt::format("`plimsoll replay {}` explains it", path) : std::string()});
  }

  std::optional<std::string> a_, b_, device_;
  bool shows_all_ = false, as_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_compare_command() { return std::make_unique<CompareCommand>(); }

}  // namespace plimsoll
