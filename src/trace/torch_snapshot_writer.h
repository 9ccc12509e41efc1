// Writes an AllocationTrace as the pickle of torch.cuda.memory._dump_snapshot(): PyTorch's memory page and
// the functions of torch.cuda._memory_viz read it as if a GPU had made it.
//
//   std::ofstream file("snapshot.pickle", std::ios::binary);
//   write_torch_snapshot(trace, file);
//
// Times are written in microseconds, as PyTorch does. A stack whose frames are empty is as good as none.
// Does not model: private pools (every pool id is (0, 0)), annotations.
// Source: torch/csrc/cuda/memory_snapshot.cpp, torch/cuda/_memory_viz.py.
#pragma once

#include <ostream>

#include "trace/allocation_trace.h"

namespace plimsoll {

void write_torch_snapshot(const AllocationTrace& trace, std::ostream& out);

}  // namespace plimsoll
