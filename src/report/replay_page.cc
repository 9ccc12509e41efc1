#include "report/replay_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.h"
#include "report/event_text.h"
#include "report/plot.h"
#include "report/replay_findings.h"
#include "report/snapshot_holders.h"
#include "report/what_if_text.h"

namespace plimsoll {
namespace {

double percent(Bytes part, Bytes whole) {
  return whole.value == 0 ? 0.0 : 100.0 * static_cast<double>(part.value) / static_cast<double>(whole.value);
}

std::string header_text(const std::string& file, const DeviceReplay& d) {
  const SnapshotAnalysis& a = d.analysis;
  std::string text =
      fmt::format("{}: device {}, {} segments, {} events", file, d.trace->device,
                  with_thousands(a.at_dump.segments), with_thousands(static_cast<int64_t>(a.events)));
  const auto& events = d.trace->events;
  if (!events.empty() && events.front().time && events.back().time)
    text += fmt::format(" over {}", milliseconds_text(*events.back().time - *events.front().time));
  return text + "\n";
}

std::string failures_text(const DeviceReplay& d) {
  constexpr size_t kMost = 3;
  const std::vector<RecordedOutOfMemory>& all = d.analysis.out_of_memory;
  std::string text;
  for (size_t i = all.size() > kMost ? all.size() - kMost : 0; i < all.size(); ++i)
    text += fmt::format("Ran out of memory at {}\n  {}\n", moment_text(*d.trace, all[i].event),
                        refused_text(d,
                                     {.requested = all[i].requested,
                                      .allocated = all[i].allocated,
                                      .reserved = all[i].reserved,
                                      .device_free = all[i].device_free},
                                     all[i].frame));
  if (all.size() > kMost)
    text += fmt::format("  and {} times before (--json lists them)\n", all.size() - kMost);
  return text;
}

std::string peaks_text(const DeviceReplay& d) {
  const SnapshotAnalysis& a = d.analysis;
  TextTable table({"", "peak", "when", "at the dump"},
                  {Align::kLeft, Align::kRight, Align::kLeft, Align::kRight});
  const auto row = [&](const char* name, const MemoryPeak& peak, Bytes at_dump) {
    table.add({name, to_gib_text(peak.value), event_text(*d.trace, peak.event), to_gib_text(at_dump)});
  };
  row("allocated", a.allocated, a.at_dump.allocated);
  row("active", a.active, a.at_dump.active);
  row("reserved", a.reserved, a.at_dump.reserved);
  return table.to_text(2);
}

// The line of code that asked for a block of the peak, or that freed it, where no more is known.
std::string asked_by(const DeviceReplay& d, uint64_t address) {
  const auto& blocks = d.analysis.at_peak;
  const auto block = std::ranges::find(blocks, address, &LiveBlock::address);
  if (block == blocks.end()) return "";
  if (!block->stack) return block->event ? "" : "(from before the trace)";
  for (FrameId f : d.trace->stacks.frames_of(*block->stack)) {
    const StackFrame& frame = d.trace->stacks.frame(f);
    if (frame.filename.ends_with(".py") && !is_library_file(frame.filename))
      return (block->is_stack_of_free ? "freed by " : "") + frame_text(frame);
  }
  return block->event ? "" : "(from before the trace)";
}

std::string fragmentation_text(const DeviceReplay& d) {
  constexpr size_t kMost = 4;
  const Fragmentation& f = d.analysis.fragmentation;
  const Bytes idle = f.reserved - f.allocated;
  std::string text = fmt::format(
      "\nFragmentation when allocated memory peaked: {} of {} ({:.1f} %) was not allocated\n"
      "  {} in {} whole cached segments, {} stranded in {} segments that live blocks hold\n",
      to_gib_text(idle), to_gib_text(f.reserved), percent(idle, f.reserved), to_gib_text(f.cached),
      with_thousands(f.cached_segments), to_gib_text(f.stranded),
      with_thousands(static_cast<int64_t>(f.segments.size())));
  if (f.segments.empty()) return text;
  TextTable table({"stranded", "largest hole", "of segment", "live blocks", "smallest of them", "asked by"},
                  {Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft});
  for (size_t i = 0; i < std::min(kMost, f.segments.size()); ++i) {
    const StrandedSegment& s = f.segments[i];
    table.add({to_text(s.free), to_text(s.largest_free), to_text(s.bytes), with_thousands(s.live_blocks),
               to_text(s.pinned_bytes), asked_by(d, s.pinned_by)});
  }
  return text + table.to_text(2);
}

std::string curve_text(const SnapshotAnalysis& a) {
  constexpr int kRows = 10;
  if (a.curve.empty()) return {};
  const size_t columns = std::min<size_t>(static_cast<size_t>(PlotSize().columns), a.curve.size());
  std::vector<int64_t> peaks(columns, 0);
  for (size_t i = 0; i < a.curve.size(); ++i) {
    int64_t& peak = peaks[i * columns / a.curve.size()];
    peak = std::max(peak, a.curve[i].allocated.value);
  }
  return "\nAllocated memory, event by event\n" + plot_columns(peaks, kRows);
}

std::string roles_text(const SnapshotHolders& holders) {
  std::string text;
  for (size_t r = 0; r < kNumBlockRoles; ++r) {
    if (holders.by_role[r].value == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} ({:.0f} %)", name_of(static_cast<BlockRole>(r)),
                        to_gib_text(holders.by_role[r]), percent(holders.by_role[r], holders.total));
  }
  return text;
}

std::string ops_text(const CodeLineHolders& line) {
  if (line.other_ops == 0) return line.op;
  return fmt::format("{} and {} other{}", line.op, line.other_ops, line.other_ops == 1 ? "" : "s");
}

std::string lines_text(const SnapshotHolders& holders, size_t most) {
  const bool has_freed = std::ranges::any_of(holders.lines, &CodeLineHolders::is_freed_by);
  TextTable table(
      {"total", "blocks", "largest", "for", has_freed ? "asked by, or freed by" : "asked by", "op"},
      {Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft, Align::kLeft});
  Bytes rest;
  int64_t rest_blocks = 0;
  for (size_t i = 0; i < holders.lines.size(); ++i) {
    const CodeLineHolders& line = holders.lines[i];
    if (i >= most) {
      rest += line.total;
      rest_blocks += line.count;
      continue;
    }
    table.add({to_text(line.total), with_thousands(line.count), to_text(line.largest),
               std::string(name_of(line.role)), line.where, ops_text(line)});
  }
  if (rest_blocks > 0)
    table.add({to_text(rest), with_thousands(rest_blocks), "", "",
               fmt::format("{} more lines", holders.lines.size() - most)});
  return table.to_text(2);
}

std::string sizes_text(const SnapshotHolders& holders) {
  constexpr size_t kMost = 4;
  TextTable table({"total", "blocks", "of size"}, {Align::kRight, Align::kRight, Align::kLeft});
  for (size_t i = 0; i < std::min(kMost, holders.sizes.size()); ++i) {
    const SizeClassHolders& size = holders.sizes[i];
    table.add({to_text(size.total), with_thousands(size.count),
               fmt::format("{} to {}", to_text(size.from), to_text(size.below))});
  }
  return table.to_text(2);
}

std::string holders_text(const DeviceReplay& d, const ReplayPageOptions& options) {
  const SnapshotHolders holders = holders_of(*d.trace, d.analysis.at_peak);
  if (holders.lines.empty()) return {};
  std::string text = "\nWhat held the allocated memory at its peak\n";
  text += fmt::format("  {}\n  ({})\n", roles_text(holders),
                      holders.is_simulated
                          ? "as the simulation names them"
                          : "a guess: from the functions on each stack, from sizes and lifetimes");
  text += lines_text(holders, options.most_lines);
  return text + "\n" + sizes_text(holders) + annotations_text(d, options);
}

}  // namespace

std::string replay_page(const std::string& file, const DeviceReplay& d, const ReplayPageOptions& options) {
  return header_text(file, d) + failures_text(d) + peaks_text(d) + curve_text(d.analysis) +
         (d.analysis.events > 0 ? steps_text(d.analysis.steps) : "") + holders_text(d, options) +
         held_blocks_text(d, options) + fragmentation_text(d) + give_backs_text(d.analysis.given_back) +
         twin_text(d.analysis.replay) + what_if_text(d, options.device_text);
}

}  // namespace plimsoll
