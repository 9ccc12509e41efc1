// What a process holds on its GPU outside the caching allocator: the driver's context and the communicators.
//
// Source: the GPU's file for the context; for communicators NCCL 2.30 (about 12 MiB per channel and neighbour
// link) and the measured anchors named in the parts' sources.
// Does not model: connections made for point-to-point transfers, user-buffer registration, other processes.
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

DeviceParts device_parts(const Gpu& gpu, const ResolvedJob& job);

}  // namespace plimsoll
