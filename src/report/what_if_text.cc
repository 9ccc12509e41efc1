#include "report/what_if_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.h"
#include "replay/stack_roles.h"
#include "report/event_text.h"
#include "report/signed_bytes.h"

namespace plimsoll {
namespace {

std::string settings_text(const WhatIf& w) {
  const std::string settings = w.configuration.empty() ? "PyTorch's default" : w.configuration;
  return w.is_as_recorded ? fmt::format("as recorded ({})", settings) : settings;
}

std::string times_text(int64_t times) {
  return times == 0 ? "never" : times == 1 ? "once" : fmt::format("{} times", times);
}

bool has_earlier_blocks(const SnapshotAnalysis& a) {
  return std::ranges::any_of(a.at_peak, [](const LiveBlock& block) { return !block.event; });
}

const char* why_peaks_differ(const SnapshotAnalysis& a) {
  const WhatIf& first = a.what_if.front();
  const bool is_same_device = !first.capacity || first.is_capacity_recorded;
  if (first.served_failures > 0) return "a request that failed in the recording is served here";
  if (!is_same_device && first.retries > 0) return "the device was full here and cached memory went back";
  if (has_earlier_blocks(a))
    return "blocks from before the trace are placed anew, without the cached memory and the holes around "
           "them";
  return "played anew the allocator chose other segments at some moment, as when memory went back in between";
}

// The recorded settings, played anew, may come to another peak than the recording.
std::string difference_text(const SnapshotAnalysis& a) {
  const WhatIf& first = a.what_if.front();
  if (first.out_of_memory || first.peak_reserved == a.reserved.value) return {};
  return fmt::format("  the recording itself peaked at {}, as recorded at {} here: {}\n",
                     to_gib_text(a.reserved.value), to_gib_text(first.peak_reserved), why_peaks_differ(a));
}

std::string failures_text(const DeviceReplay& d) {
  std::string text;
  for (const WhatIf& w : d.analysis.what_if)
    if (w.out_of_memory)
      text += fmt::format("  out of memory with {}: {}\n", settings_text(w),
                          refused_text(d, *w.out_of_memory, w.out_of_memory_frame));
  return text;
}

// What was not asked for, and why it's shown, or how to ask for it.
std::string suggestion_text(const SnapshotAnalysis& a) {
  return fmt::format("when reserved memory peaked, {} of {} was not allocated",
                     to_gib_text(a.idle_at_reserved_peak), to_gib_text(a.reserved.value));
}

std::string hint_text(const DeviceReplay& d) {
  if (!is_much_idle(d.analysis) || d.trace->settings.expandable_segments) return {};
  return fmt::format("\nWorth a try: --alloc-conf {} ({})\n", kSuggestedSettings,
                     suggestion_text(d.analysis));
}

}  // namespace

std::string refused_text(const DeviceReplay& d, const OutOfMemory& refused,
                         const std::optional<FrameId>& frame) {
  std::string text = to_text(refused.requested);
  if (refused.segment_wanted > refused.requested)
    text += fmt::format(" (a segment of {})", to_text(refused.segment_wanted));
  text += " asked for";
  if (frame) text += " by " + frame_text(d.trace->stacks.frame(*frame));
  text += fmt::format("; allocated {}, reserved {} then", to_gib_text(refused.allocated),
                      to_gib_text(refused.reserved));
  if (refused.device_free) text += fmt::format(", the device had {} free", to_text(*refused.device_free));
  return text;
}

std::string what_if_text(const DeviceReplay& d, const std::string& device_text) {
  const SnapshotAnalysis& a = d.analysis;
  if (a.what_if.empty()) return hint_text(d);
  const WhatIf& first = a.what_if.front();
  TextTable table(
      {"allocator configuration", "may take", "peak reserved", "change", "cache given back", "out of memory"},
      {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft});
  for (const WhatIf& w : a.what_if)
    table.add({settings_text(w), w.capacity ? to_gib_text(*w.capacity) : "no limit",
               to_gib_text(w.peak_reserved),
               w.is_as_recorded ? "" : signed_gib_text(w.peak_reserved - first.peak_reserved),
               times_text(w.retries), w.out_of_memory ? event_text(*d.trace, w.out_of_memory_at) : "no"});
  std::string text = "\nThe same requests under other settings\n" + table.to_text(2);
  text += failures_text(d);
  for (const WhatIf& w : a.what_if)
    for (const std::string& setting : w.without_effect) text += fmt::format("  no effect: {}\n", setting);
  if (a.what_if.back().is_suggested) text += fmt::format("  tried unasked: {}\n", suggestion_text(a));
  if (!device_text.empty()) text += "  " + device_text + "\n";
  if (first.is_capacity_recorded)
    text += "  on a device like the recorded one, which was full (--capacity and --gpu try others)\n";
  return text + difference_text(a);
}

}  // namespace plimsoll
