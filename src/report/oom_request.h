// What an out-of-memory error asked for. PyTorch names the segment that it tried to get from the driver, not
// the tensor that was to lie in it:
//
//   tensor, rounded to 512 bytes   segment that the message names
//   up to 1 MiB                    2 MiB
//   above that, below 10 MiB       20 MiB
//   from 10 MiB                    the tensor's size, rounded up to 2 MiB
//
// Of MPS and cudaMallocAsync the message names the request itself. Source: get_allocation_size() of
// c10/cuda/CUDACachingAllocator.cpp and c10/xpu/XPUCachingAllocator.cpp, since PyTorch 1.1. Does not model:
// large_segment_size_mb, roundup_power2_divisions, which the message doesn't show.
#pragma once

#include <string>
#include <vector>

#include "trace/out_of_memory_message.h"

namespace plimsoll {

struct TensorRange {
  Bytes above, up_to;

  friend bool operator==(const TensorRange&, const TensorRange&) = default;
};

// Of what sizes the tensor may have been, smaller ones first; empty: of the size that the message names.
std::vector<TensorRange> tensor_ranges(const OutOfMemoryMessage& message);
// The least that had to be found, whatever the tensor was.
Bytes smallest_tensor(const OutOfMemoryMessage& message);
// "a tensor of 1.00 to 10.00 MiB or of 18.00 to 20.00 MiB"; empty where the request is the tensor's.
std::string tensor_text(const OutOfMemoryMessage& message);

}  // namespace plimsoll
