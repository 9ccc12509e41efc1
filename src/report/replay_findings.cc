#include "report/replay_findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.h"
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

}  // namespace

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

}  // namespace plimsoll
