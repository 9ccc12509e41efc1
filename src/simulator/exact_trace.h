// The trace that a program leaves on an allocator which gives every request its own bytes, as LibTorch's does
// on a CPU: what exact_peaks.h sums up, block by block. Each block's stack is its op in the op's module and
// the category of its storage (trace/simulated_stack.h).
//
//   write_torch_snapshot(exact_trace(program, program.schedule), file);
//
// Bytes of the tier kGpu. There is no model of time: an op takes a microsecond.
#pragma once

#include <span>

#include "program/program.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

// Of these steps, one after another, each an annotation.
AllocationTrace exact_trace(const Program& program, std::span<const PhaseStep> steps);

}  // namespace plimsoll
