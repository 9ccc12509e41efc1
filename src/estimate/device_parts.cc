#include "estimate/device_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "hardware/fact.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

constexpr int64_t kMegabyte = 1'000'000;

DevicePart context_of(const Gpu& gpu) {
  DevicePart part{.name = "context", .bytes = gpu.context};
  if (const Fact* fact = find_fact(gpu.facts, "memory.context_mib")) {
    part.source = fact->source;
    part.is_estimate = fact->is_estimate;
  }
  return part;
}

// One communicator of so many ranks. Buffers belong to channels and neighbours, not to message sizes.
DevicePart communicator(const Gpu& gpu, std::string name, int64_t ranks) {
  DevicePart part{.name = std::move(name), .is_estimate = true};
  const int capability = compute_capability_of(gpu.architecture).value_or(0);
  if (capability >= 90) {
    part.bytes = kMiB * 400;
    part.source = "about 0.39 GiB for each communicator, seen on H100";
  } else if (capability == 80) {
    part.bytes = Bytes{(ranks == 2 ? 544 : 688) * kMegabyte};
    part.source = "544 MB for 2 ranks, 688 MB for more, seen on A100 (NVIDIA/nccl#964)";
  } else {
    part.bytes = std::min(kMiB * 96 + kMiB * 2 * ranks, kGiB);
    part.source = "96 MiB + 2 MiB for each rank, at most 1 GiB (Primus)";
  }
  return part;
}

}  // namespace

Bytes DeviceParts::communicator_bytes() const {
  Bytes sum;
  for (const DevicePart& part : communicators) sum += part.bytes;
  return sum;
}

Bytes DeviceParts::estimated() const {
  Bytes sum;
  if (context.is_estimate) sum += context.bytes;
  for (const DevicePart& part : communicators)
    if (part.is_estimate) sum += part.bytes;
  return sum;
}

DeviceParts device_parts(const Gpu& gpu, const ResolvedJob& job) {
  DeviceParts parts{.context = context_of(gpu)};
  const Mesh& mesh = job.mesh;
  if (mesh.tensor > 1)
    parts.communicators.push_back(
        communicator(gpu, fmt::format("communicator of {} tensor-parallel ranks", mesh.tensor), mesh.tensor));
  if (job.framework == Framework::kMegatron) {
    if (mesh.data > 1)
      parts.communicators.push_back(
          communicator(gpu, fmt::format("communicator of {} data-parallel ranks", mesh.data), mesh.data));
    if (mesh.pipeline > 1)
      parts.communicators.push_back(
          communicator(gpu, fmt::format("communicator of {} pipeline stages", mesh.pipeline), mesh.pipeline));
  }
  if (job.engine == DataParallelEngine::kDdp)
    parts.communicators.push_back(
        communicator(gpu, fmt::format("communicator of {} data-parallel ranks", mesh.data), mesh.data));
  if (job.engine == DataParallelEngine::kFsdp2) {
    if (mesh.shard > 1)
      parts.communicators.push_back(
          communicator(gpu, fmt::format("communicator of {} sharding ranks", mesh.shard), mesh.shard));
    if (mesh.replicate > 1)
      parts.communicators.push_back(
          communicator(gpu, fmt::format("communicator of {} replicas", mesh.replicate), mesh.replicate));
  }
  return parts;
}

}  // namespace plimsoll
