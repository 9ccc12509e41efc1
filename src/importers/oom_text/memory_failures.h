// Finds deaths for want of memory in a log, line by line, that give no account of who held it
// (trace/memory_failure.h). PyTorch's own errors with their figures are oom_text.h's.
//
//   for (const MemoryFailure& failure : find_memory_failures(log)) print(failure.text);
//
// Source: NCCL src/include/alloc.h, checks.h and shmutils.cc, c10/core/impl/alloc_cpu.cpp,
// c10/cuda/CUDAException.cpp, aten/src/ATen/cuda/CUDABlas.cpp, aten/src/ATen/native/mps/OperationUtils.mm,
// torch/utils/data/_utils/signal_handling.py and torch/csrc/DataLoader.cpp,
// torch/distributed/elastic/multiprocessing/api.py, Linux mm/oom_kill.c, Slurm's cgroup plugins.
#pragma once

#include <string_view>
#include <vector>

#include "trace/memory_failure.h"

namespace plimsoll {

// One of each kind, by line.
std::vector<MemoryFailure> find_memory_failures(std::string_view text);
// Whether there is one.
bool sniff_memory_failures(std::string_view text);

}  // namespace plimsoll
