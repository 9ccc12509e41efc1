// Writes AllocationTraces, one of each device, as the pickle of torch.cuda.memory._dump_snapshot(): PyTorch's
// memory page and the functions of torch.cuda._memory_viz read it as if a GPU had made it.
//
//   std::ofstream file("snapshot.pickle", std::ios::binary);
//   write_torch_snapshot(trace, file);
//
// Times are written in microseconds, as PyTorch does. A stack whose frames are empty is as good as none.
// Source: torch/csrc/cuda/memory_snapshot.cpp, torch/cuda/_memory_viz.py.
#pragma once

#include <ostream>
#include <span>

#include "trace/allocation_trace.h"

namespace plimsoll {

void write_torch_snapshot(const AllocationTrace& trace, std::ostream& out);
// Of one file: they share its settings. REQUIRES at least one, and devices that rise.
void write_torch_snapshot(std::span<const AllocationTrace> traces, std::ostream& out);

}  // namespace plimsoll
