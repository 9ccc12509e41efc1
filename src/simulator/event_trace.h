// The event order of a simulated run as CSV, in the columns of the reference traces: seq, phase, event,
// storage, bytes, rounded, total, category, op, where. One line per alloc and free in order; bytes are those
// of the storage.
#pragma once

#include <ostream>

#include "simulator/simulator.h"

namespace plimsoll {

// The category names of the reference: param, buffer, grad, optim, input, activation, temp_fwd, temp_bwd,
// temp_step, temp_eval, comm_*, other. Activations and temporaries are told apart by whether they outlive the
// forward that made them.
std::vector<std::string_view> reference_categories(const Program& program, const MemoryTimeline& timeline);

void write_event_trace(std::ostream& out, const Program& program, const MemoryTimeline& timeline);

}  // namespace plimsoll
