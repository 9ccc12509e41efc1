#include "estimate/device_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimate/nccl.h"
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

namespace {

// Ranks are laid out with tensor parallelism innermost, then context, data and pipeline
// (megatron/core/parallel_state.py's "tp-cp-ep-dp-pp", torchtitan/distributed/parallel_dims.py).
class Communicators {
 public:
  Communicators(const Gpu& gpu, const Mesh& mesh) : gpu_(gpu), mesh_(mesh) {}

  void add_collectives(int64_t ranks, std::string_view of_ranks) {
    if (ranks > 1)
      parts_.push_back(communicator(gpu_, fmt::format("communicator of {} {}", ranks, of_ranks), ranks));
  }
  // Each hands activations to the next.
  void add_pipeline() {
    add_collectives(mesh_.pipeline, "pipeline stages");
    const nccl::Group stages{.ranks = mesh_.pipeline, .stride = mesh_.world / mesh_.pipeline};
    add_connections("connections of pipeline stages", nccl::neighbours(gpu_, mesh_.gpus_per_node, stages));
  }
  // Tokens go to their experts and back. DeepEP (kFlex) has buffers of its own, which are not known.
  void add_experts(const MegatronExperts& experts) {
    if (experts.expert_ranks == 1 || experts.dispatcher == MegatronDispatcher::kFlex) return;
    add_collectives(experts.expert_ranks, "expert-parallel ranks");
    if (experts.dispatcher != MegatronDispatcher::kAllToAll) return;
    const nccl::Group ranks{.ranks = experts.expert_ranks,
                            .stride = experts.tensor_ranks.value_or(mesh_.tensor)};
    add_connections("connections of expert-parallel ranks",
                    nccl::all_to_all(gpu_, mesh_.gpus_per_node, ranks));
  }
  std::vector<DevicePart> take() { return std::move(parts_); }

 private:
  // RCCL's connections are not known.
  void add_connections(std::string name, Bytes bytes) {
    if (gpu_.vendor != Vendor::kNvidia || bytes == Bytes{}) return;
    parts_.push_back({.name = std::move(name),
                      .bytes = bytes,
                      .source =
                          "12 MiB for each channel to a neighbour in the node, 4 MiB for each channel over "
                          "the network (NVIDIA/nccl, src/transport)",
                      .is_estimate = true});
  }

  const Gpu& gpu_;
  const Mesh& mesh_;
  std::vector<DevicePart> parts_;
};

}  // namespace

Bytes library_workspace(const Gpu& gpu, const ResolvedJob& job) {
  return job.framework == Framework::kMegatron ? Bytes{} : gpu.cublas_workspace;
}

DeviceParts device_parts(const Gpu& gpu, const ResolvedJob& job) {
  const Mesh& mesh = job.mesh;
  Communicators made(gpu, mesh);
  made.add_collectives(mesh.tensor, "tensor-parallel ranks");
  if (job.framework == Framework::kMegatron) {
    made.add_collectives(mesh.data, "data-parallel ranks");
    if (mesh.pipeline > 1) made.add_pipeline();
    if (job.megatron) made.add_experts(job.megatron->experts);
  }
  if (job.engine == DataParallelEngine::kDdp) made.add_collectives(mesh.data, "data-parallel ranks");
  if (job.engine == DataParallelEngine::kFsdp2) {
    made.add_collectives(mesh.shard, "sharding ranks");
    made.add_collectives(mesh.replicate, "replicas");
  }
  return {.context = context_of(gpu), .communicators = made.take()};
}

}  // namespace plimsoll
