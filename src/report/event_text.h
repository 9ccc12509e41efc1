// Moments of a recorded trace, for pages.
#pragma once

#include <optional>
#include <string>

#include "trace/allocation_trace.h"

namespace plimsoll {

std::string milliseconds_text(Nanoseconds time);  // "2.5 ms"
// "event 11, 2.5 ms into the trace": events count from 1, as nowhere else.
std::string moment_text(const AllocationTrace& trace, size_t event);
// "after event 11, 2.5 ms into the trace"
std::string event_text(const AllocationTrace& trace, const std::optional<size_t>& event);

}  // namespace plimsoll
