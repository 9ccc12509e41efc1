#include "report/event_text.h"

#include <fmt/format.h>

namespace plimsoll {

std::string milliseconds_text(Nanoseconds time) {
  constexpr double kNanosecondsPerMillisecond = 1e6;
  return fmt::format("{:.1f} ms", static_cast<double>(time.value) / kNanosecondsPerMillisecond);
}

std::string moment_text(const AllocationTrace& trace, size_t event) {
  std::string text = fmt::format("event {}", with_thousands(static_cast<int64_t>(event) + 1));
  const auto& first = trace.events.front().time;
  const auto& at = trace.events[event].time;
  if (first && at) text += fmt::format(", {} into the trace", milliseconds_text(*at - *first));
  return text;
}

std::string event_text(const AllocationTrace& trace, const std::optional<size_t>& event) {
  if (!event) return "before the first event";
  return "after " + moment_text(trace, *event);
}

}  // namespace plimsoll
