// A run once more, recorded for other programs' viewers.
//
//   write_torch_snapshot(record_snapshot(run), file);         // PyTorch's memory page
//   TraceEventWriter(file).add("rank 0", record_timeline(run));   // Perfetto
#pragma once

#include "estimate/estimate.h"
#include "trace/allocation_trace.h"
#include "trace/timeline.h"

namespace plimsoll {

// What the caching allocator does, without the device's limit; each event's stack is its op in the op's
// module, and of an alloc the category of the storage, and the program's phases are annotations
// (trace/simulated_stack.h).
AllocationTrace record_snapshot(const EstimateRun& run);

// Phases and ops with the memory counters. There is no model of time: an op takes a microsecond.
Timeline record_timeline(const EstimateRun& run);

}  // namespace plimsoll
