#include "report/what_if_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.h"
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

// Why the recorded settings, played anew, came to another peak than the recording.
std::string difference_text(const SnapshotAnalysis& a) {
  const WhatIf& first = a.what_if.front();
  const bool is_same_device = !first.capacity || first.is_capacity_recorded;
  if (!is_same_device || first.out_of_memory || first.peak_reserved == a.reserved.value) return {};
  const char* const reason = has_earlier_blocks(a) ? "blocks from before the trace are placed anew, without "
                                                     "the cached memory and the holes around them"
                                                   : "played anew the allocator chose other segments at some "
                                                     "moment, as when memory went back in between";
  return fmt::format("  the recording itself peaked at {}, as recorded at {} here: {}\n",
                     to_gib_text(a.reserved.value), to_gib_text(first.peak_reserved), reason);
}

}  // namespace

std::string what_if_text(const DeviceReplay& d, const std::string& device_text) {
  const SnapshotAnalysis& a = d.analysis;
  if (a.what_if.empty()) return {};
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
  if (!device_text.empty()) text += "  " + device_text + "\n";
  if (first.is_capacity_recorded)
    text += "  on a device like the recorded one, which was full (--capacity and --gpu try others)\n";
  return text + difference_text(a);
}

}  // namespace plimsoll
