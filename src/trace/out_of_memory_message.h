// What the text of PyTorch's out-of-memory error says. The text rounds: a size of 11.47 GiB may be 5 MiB more
// or less. Source: c10/cuda/CUDACachingAllocator.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace plimsoll {

struct OutOfMemoryMessage {
  struct Process {
    int64_t id = 0;
    Bytes in_use;

    friend bool operator==(const Process&, const Process&) = default;
  };

  std::string kind;  // "CUDA", "HIP", "XPU"
  Bytes tried;       // the request, rounded as segments are
  std::optional<int> device;
  std::optional<Bytes> capacity, free;        // of the device, by the driver
  std::optional<Bytes> in_use;                // by this process, context and libraries included
  std::optional<Bytes> allowed;               // set_per_process_memory_fraction()
  std::optional<Bytes> allocated;             // by tensors, those of private pools included
  std::optional<Bytes> private_pools;         // of `allocated`: pools of CUDA graphs and MemPools
  std::optional<Bytes> reserved_unallocated;  // cached by the allocator
  std::vector<Process> other_processes;       // with their own ids, as the driver sees them
  int64_t times = 1;                          // the same text, as from several ranks

  friend bool operator==(const OutOfMemoryMessage&, const OutOfMemoryMessage&) = default;

  // Of this process but not of the allocator: context, libraries, NCCL. Nothing where the text doesn't say.
  std::optional<Bytes> beside_pytorch() const {
    if (!in_use || !allocated || !reserved_unallocated) return std::nullopt;
    return *in_use - *allocated - *reserved_unallocated;
  }
};

}  // namespace plimsoll
