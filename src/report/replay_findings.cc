#include "report/replay_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text_table.h"
#include "replay/annotated_blocks.h"
#include "replay/stack_roles.h"

namespace plimsoll {
namespace {

constexpr int64_t kLeastShare = 1000;  // what is less than so much of the peak isn't worth a line

// Where the blocks were asked for, and where what holds them was called.
std::string where_text(const AllocationTrace& trace, const HeldLine& line) {
  if (!line.frame) return "(no stack recorded)";
  std::string text = frame_text(trace.stacks.frame(*line.frame));
  if (line.call_frame && line.call_frame != line.frame)
    text += ", called at " + frame_text(trace.stacks.frame(*line.call_frame));
  return text;
}

std::string how_long(const HeldLine& line) {
  if (line.until != HeldUntil::kGrowing) return std::string(name_of(line.until));
  return fmt::format("{}: {} a step", name_of(line.until), to_text(line.most / line.steps));
}

std::string why_text(const HeldBlocks& held) {
  std::string text = "  (inferred: made in a forward and alive after its backward, or gradients after ";
  text += held.backwards == 1
              ? "their step;\n  the trace shows one backward, so what is made once and kept looks the same)\n"
              : fmt::format("their step; {} backwards seen)\n", with_thousands(held.backwards));
  return text;
}

// What to do about what the table shows.
std::string advice_text(const HeldBlocks& held) {
  const auto has = [&](auto matches) { return std::ranges::any_of(held.lines, matches); };
  std::string text;
  if (has([](const HeldLine& line) { return line.kind == HeldKind::kOfForward; }))
    text += "  del results before the next forward; keep .item() or .detach().cpu() of what is logged\n";
  if (has([](const HeldLine& line) { return line.kind == HeldKind::kGradient; }))
    text += "  call optimizer.zero_grad() right after optimizer.step()\n";
  return text;
}

std::string named_text(const char* title, const std::vector<NamedBlocks>& groups, size_t most) {
  if (groups.empty()) return {};
  TextTable table({"total", "blocks", title}, {Align::kRight, Align::kRight, Align::kLeft});
  for (size_t i = 0; i < std::min(most, groups.size()); ++i)
    table.add({to_text(groups[i].total), with_thousands(groups[i].count),
               groups[i].name.empty() ? "(none)" : groups[i].name});
  std::string text = "\n" + table.to_text(2);
  if (groups.size() > most) text += fmt::format("  {} more (--all)\n", groups.size() - most);
  return text;
}

}  // namespace

std::string annotations_text(const DeviceReplay& d, const ReplayPageOptions& options) {
  const size_t most = std::max<size_t>(4, options.most_lines / 3);
  const AnnotatedBlocks named = annotated_blocks(*d.trace, d.analysis.at_peak, d.analysis.allocated.event);
  const bool is_simulated = d.analysis.steps.told_by == PhasesToldBy::kSimulation;
  return named_text(is_simulated ? "allocated in" : "allocated in (record_function)", named.annotations,
                    most) +
         named_text("user metadata", named.metadata, most);
}

std::string steps_text(const StepPhases& phases) {
  std::string counts;
  const auto add = [&](const std::optional<int64_t>& count, std::string_view what) {
    if (!count) return;
    counts += fmt::format("{}{} {}{}", counts.empty() ? "" : ", ", with_thousands(*count), what,
                          *count == 1 ? "" : "s");
  };
  add(phases.forwards, "forward");
  add(phases.backwards, "backward");
  add(phases.optimizer_steps, "optimizer step");
  switch (phases.told_by) {
    case PhasesToldBy::kNothing:
      return "\nSteps in the trace: unknown, no stack of an allocation shows a forward or a backward\n";
    case PhasesToldBy::kSimulation:
      return fmt::format("\nSteps in the trace: {} (as the simulation names them)\n", counts);
    case PhasesToldBy::kRecording:
      break;
  }
  if (!phases.forwards) return fmt::format("\nSteps in the trace: {} (by annotations; no stacks)\n", counts);
  return fmt::format(
      "\nSteps in the trace: {} (by stacks; forwards with nothing between them look like one)\n", counts);
}

std::string_view name_of(HeldKind kind) {
  return kind == HeldKind::kOfForward ? "made in a forward" : "gradients";
}

std::string_view name_of(HeldUntil until) {
  switch (until) {
    case HeldUntil::kStepEnd:
      return "the step's end";
    case HeldUntil::kNextForward:
      return "in the next forward";
    case HeldUntil::kLater:
      return "steps later";
    case HeldUntil::kGrowing:
      return "never, and grows";
    case HeldUntil::kKept:
      return "never: kept for all steps";
    case HeldUntil::kDump:
      return "the dump";
  }
  return "";
}

std::string held_blocks_text(const DeviceReplay& d, const ReplayPageOptions& options) {
  constexpr size_t kMost = 5;
  const HeldBlocks& held = d.analysis.held;
  TextTable table({"held", "of the peak", "blocks", "what", "freed", "asked by"},
                  {Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft, Align::kLeft});
  size_t shown = 0, left_out = 0;
  for (const HeldLine& line : held.lines) {
    if (line.most * kLeastShare < d.analysis.allocated.value) continue;
    if (shown >= kMost && shown >= options.most_lines / 3) {
      ++left_out;
      continue;
    }
    ++shown;
    table.add({to_text(line.most), to_text(line.at_peak), with_thousands(line.blocks),
               std::string(name_of(line.kind)), how_long(line), where_text(*d.trace, line)});
  }
  if (shown == 0) return {};
  std::string text = fmt::format("\nAlive after the last possible use: {} of the peak\n",
                                 held.at_peak.value == 0 ? "nothing" : to_text(held.at_peak));
  text += why_text(held) + table.to_text(2);
  if (left_out > 0) text += fmt::format("  {} more lines (--all)\n", left_out);
  return text + advice_text(held);
}

std::string_view name_of(GiveBackReason reason) {
  switch (reason) {
    case GiveBackReason::kProgram:
      return "the program asked (empty_cache)";
    case GiveBackReason::kDeviceFull:
      return "the device was full";
    case GiveBackReason::kOutOfMemory:
      return "the device was full, in vain: out of memory";
    case GiveBackReason::kOversize:
      return "the device was full, oversize segments (max_split_size_mb)";
    case GiveBackReason::kGarbageCollection:
      return "garbage_collection_threshold";
  }
  return "";
}

std::string give_backs_text(const GiveBacks& given_back) {
  struct Sum {
    int64_t times = 0, segments = 0, uncertain = 0;
    Bytes bytes;
  };
  std::array<Sum, kNumGiveBackReasons> sums;
  for (const GiveBack& g : given_back.all) {
    Sum& sum = sums[static_cast<size_t>(g.reason)];
    ++sum.times;
    sum.segments += g.segments;
    sum.bytes += g.bytes;
    if (!g.is_certain) ++sum.uncertain;
  }
  std::string text;
  for (size_t r = 0; r < kNumGiveBackReasons; ++r) {
    const Sum& sum = sums[r];
    if (sum.times == 0) continue;
    text += fmt::format("  {} in {} segments, {}: {}{}\n", to_text(sum.bytes), with_thousands(sum.segments),
                        sum.times == 1 ? "once" : with_thousands(sum.times) + " times",
                        name_of(static_cast<GiveBackReason>(r)),
                        sum.uncertain > 0 ? " (taken to: no stack tells)" : "");
  }
  return text.empty() ? text : "\nCached memory that went back to the device\n" + text;
}

std::string twin_text(const ReplayResult& r) {
  constexpr size_t kMost = 3;
  std::string text = fmt::format(
      "\nPlayed again by Plimsoll's model of the allocator, which the figures above and below rest on:\n"
      "  {} of {} allocations came to the recorded address",
      with_thousands(r.same_address), with_thousands(r.allocations));
  text += r.segments == 0 ? ", no new segment was needed\n"
                          : fmt::format(", {} of {} new segments were taken at the recorded moment\n",
                                        with_thousands(r.same_segments), with_thousands(r.segments));
  for (size_t i = 0; i < std::min(kMost, r.divergences.size()); ++i) {
    const Divergence& d = r.divergences[i];
    text += fmt::format("  {} at event {}: recorded {:#x}, played {}{}{}\n",
                        i == 0 ? "first difference" : "difference",
                        with_thousands(static_cast<int64_t>(d.event) + 1), d.recorded,
                        d.replayed == 0 ? "in a new segment" : fmt::format("{:#x}", d.replayed),
                        d.reason.empty() ? "" : ": ", d.reason);
  }
  const MemoryStats& stats = r.memory_stats;
  text += fmt::format(
      "  memory_stats() since the trace's start: num_device_alloc {}, num_device_free {}, "
      "num_alloc_retries {}, num_ooms {}\n",
      with_thousands(stats.num_device_alloc), with_thousands(stats.num_device_free),
      with_thousands(stats.num_alloc_retries), with_thousands(stats.num_ooms));
  const int64_t more = r.allocations - r.same_address - static_cast<int64_t>(kMost);
  if (more > 0)
    text += fmt::format("  {} more differences (--json lists the first hundred)\n", with_thousands(more));
  return text;
}

}  // namespace plimsoll
