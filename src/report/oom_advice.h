// What helps against fragmentation in the version of PyTorch that wrote an out-of-memory error: the name of
// the variable and the options that it knows. Source: c10/cuda/CUDAAllocatorConfig.cpp and the advice of the
// message in each version: PYTORCH_CUDA_ALLOC_CONF with max_split_size_mb since 1.10, expandable_segments
// since 2.1.
#pragma once

#include <string>

#include "trace/out_of_memory_message.h"

namespace plimsoll {

// "PYTORCH_CUDA_ALLOC_CONF": as the text names it, otherwise the one of its device.
std::string settings_variable_of(const OutOfMemoryMessage& message);
// Whether expandable_segments:True is known to this version.
bool has_expandable_segments(const OutOfMemoryMessage& message);
// A sentence; empty for an allocator that has no such setting.
std::string fragmentation_advice(const OutOfMemoryMessage& message);

}  // namespace plimsoll
