// What a process holds on its GPU outside the caching allocator: the driver's context and the communicators.
//
// Source: the GPU's file for the context; for communicators the measured anchors named in the parts' sources;
// for point-to-point connections estimate/nccl.h.
// Does not model: that a communicator with one rank on each node has fewer channels, user-buffer
// registration, other processes.
#pragma once

#include <string>
#include <vector>

#include "hardware/gpu.h"
#include "strategy/job.h"

namespace plimsoll {

struct DevicePart {
  std::string name;  // "context", "communicator of the data-parallel ranks"
  Bytes bytes;
  std::string source;
  bool is_estimate = false;
};

struct DeviceParts {
  DevicePart context;
  std::vector<DevicePart> communicators;

  Bytes communicator_bytes() const;
  Bytes total() const { return context.bytes + communicator_bytes(); }
  Bytes estimated() const;  // of those parts that are estimates
};

// Inside the caching allocator: PyTorch's workspace of cuBLAS, for each handle and stream. Zero for
// Megatron-LM, whose programs make it themselves.
Bytes library_workspace(const Gpu& gpu, const ResolvedJob& job);

DeviceParts device_parts(const Gpu& gpu, const ResolvedJob& job);

}  // namespace plimsoll
