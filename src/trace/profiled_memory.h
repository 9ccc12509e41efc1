// Memory as PyTorch's profiler saw it: every allocation and free of a device with the totals after it. Plain
// data. Invariant: instants are in the order of their times, equal ones in that of the file; sizes are whole
// blocks, rounded, unlike those of an AllocationTrace. Times are nanoseconds since the profiler's origin.
// Source: torch/csrc/autograd/profiler_kineto.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

struct MemoryInstant {
  Nanoseconds time;
  uint64_t address = 0;
  Bytes bytes;      // negative: freed
  Bytes allocated;  // of the whole device, after it
  Bytes reserved;

  friend bool operator==(const MemoryInstant&, const MemoryInstant&) = default;
};

struct OutOfMemoryInstant {
  Nanoseconds time;
  Bytes requested;
  Bytes allocated, reserved;

  friend bool operator==(const OutOfMemoryInstant&, const OutOfMemoryInstant&) = default;
};

struct ProfiledDevice {
  bool is_host = false;
  int device = 0;
  std::string name;               // "Tesla V100-SXM2-32GB"; empty where the file doesn't say
  std::optional<Bytes> capacity;  // likewise
  std::vector<MemoryInstant> instants;
  std::vector<OutOfMemoryInstant> out_of_memory;
};

struct ProfiledMemory {
  std::vector<ProfiledDevice> devices;  // GPUs by number, then the host
  std::vector<TraceImperfection> imperfections;
};

}  // namespace plimsoll
