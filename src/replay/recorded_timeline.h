// A recorded trace in time: how much was allocated, active and reserved, what the program named
// (annotations), and when segments came and went. For the Trace Event writer.
//
// Times are those of the events, from the first on; where the trace has none an event takes a microsecond.
#pragma once

#include "base/result.h"
#include "trace/allocation_trace.h"
#include "trace/timeline.h"

namespace plimsoll {

// Errors: those of replay().
Result<Timeline> recorded_timeline(const AllocationTrace& trace);

}  // namespace plimsoll
