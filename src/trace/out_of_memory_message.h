// What the text of PyTorch's out-of-memory error says. The text rounds: a size of 11.47 GiB may be 5 MiB more
// or less. Source: c10/cuda/CUDACachingAllocator.cpp, aten/src/ATen/mps/MPSAllocator.mm,
// c10/cuda/CUDAMallocAsyncAllocator.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace plimsoll {

// Whose sentences, and so which versions of PyTorch.
enum class OomWording : uint8_t {
  kBefore15,  // "1.60 GiB cached)": 1.0 to 1.4
  kBefore21,  // "2.46 GiB reserved in total by PyTorch)": 1.5 to 2.0
  kFrom21,    // "has a total capacity of"
  kAsync,     // of the cudaMallocAsync backend
  kMps        // of Apple's GPUs
};

struct OutOfMemoryMessage {
  struct Process {
    int64_t id = 0;
    Bytes in_use;

    friend bool operator==(const Process&, const Process&) = default;
  };

  OomWording wording = OomWording::kFrom21;
  std::string kind;  // "CUDA", "HIP", "XPU", "NPU", "MPS"
  Bytes tried;       // the request, rounded as segments are
  std::optional<int> device;
  std::optional<Bytes> capacity, free;  // of the device, by the driver
  std::optional<Bytes> in_use;          // by this process, context and libraries included
  std::optional<Bytes> allowed;         // set_per_process_memory_fraction(), or MPS's high watermark
  std::optional<Bytes> allocated;       // by tensors, those of private pools included; of MPS the cache too
  std::optional<Bytes> private_pools;   // of `allocated`: pools of CUDA graphs and MemPools
  std::optional<Bytes> reserved;        // in total, where the text says that: 1.5 to 2.0
  std::optional<Bytes> reserved_unallocated;  // cached by the allocator; below 0 where the text's figure is
  std::vector<Process> processes;             // with the driver's numbers; not the one of `in_use`
  int64_t unmeasured = 0;         // processes, this one too, of which the driver didn't say what they use
  std::string settings_variable;  // that the text advises: "PYTORCH_CUDA_ALLOC_CONF"; or empty
  int64_t times = 1;              // the same text, as from several ranks

  friend bool operator==(const OutOfMemoryMessage&, const OutOfMemoryMessage&) = default;
};

}  // namespace plimsoll
