#include "estimate/device_parts.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

Gpu gpu(std::string architecture) { return {.architecture = std::move(architecture), .context = kMiB * 500}; }

ResolvedJob sharded(int64_t shard, int64_t replicate) {
  return {
      .mesh = {.world = shard * replicate, .data = shard * replicate, .replicate = replicate, .shard = shard},
      .engine = DataParallelEngine::kFsdp2};
}

TEST(DeviceParts, OneRankHasNoCommunicator) {
  const DeviceParts parts = device_parts(gpu("sm_90"), {});
  EXPECT_TRUE(parts.communicators.empty());
  EXPECT_EQ(parts.total(), kMiB * 500);
}

TEST(DeviceParts, AMeshOfTwoAxesHasTwoCommunicators) {
  EXPECT_EQ(device_parts(gpu("sm_90"), sharded(8, 1)).communicator_bytes(), kMiB * 400);
  EXPECT_EQ(device_parts(gpu("sm_90"), sharded(8, 4)).communicator_bytes(), kMiB * 800);
  EXPECT_EQ(device_parts(gpu("sm_90"), sharded(1, 4)).communicator_bytes(), kMiB * 400);
}

TEST(DeviceParts, TensorParallelRanksHaveACommunicatorOfTheirOwn) {
  EXPECT_EQ(device_parts(gpu("sm_90"), {.mesh = {.world = 8, .tensor = 8}}).communicator_bytes(), kMiB * 400);
  ResolvedJob both = sharded(4, 1);
  both.mesh.tensor = 2;
  EXPECT_EQ(device_parts(gpu("sm_90"), both).communicator_bytes(), kMiB * 800);
}

TEST(DeviceParts, PipelineStagesAreConnectedToTheirNeighbours) {
  Gpu h100 = gpu("sm_90");
  h100.scale_up = ScaleUp{.link = {.kind = LinkKind::kNvlink, .nominal = BytesPerSecond{450'000'000'000}},
                          .domain_gpus = 8};
  ResolvedJob job{.framework = Framework::kMegatron,
                  .mesh = {.world = 16, .tensor = 4, .pipeline = 4, .gpus_per_node = 8}};
  // Two stages in a node: 1 neighbour x 2 channels x 12 MiB, and the network's 128 MiB.
  EXPECT_EQ(device_parts(h100, job).communicator_bytes(), kMiB * (400 + 400 + 24 + 128));
  h100.vendor = Vendor::kAmd;
  EXPECT_EQ(device_parts(h100, job).communicator_bytes(), kMiB * 800);
}

TEST(LibraryWorkspace, IsMegatronsOwn) {
  Gpu h100 = gpu("sm_90");
  h100.cublas_workspace = kMiB * 32;
  EXPECT_EQ(library_workspace(h100, {}), kMiB * 32);
  EXPECT_EQ(library_workspace(h100, {.framework = Framework::kMegatron}), Bytes{});
}

TEST(DeviceParts, ExpertParallelRanksAreConnectedToEachOther) {
  Gpu h100 = gpu("sm_90");
  h100.scale_up = ScaleUp{.link = {.kind = LinkKind::kNvlink, .nominal = BytesPerSecond{450'000'000'000}},
                          .domain_gpus = 8};
  ResolvedJob job{.framework = Framework::kMegatron, .mesh = {.world = 8, .data = 8, .gpus_per_node = 8}};
  job.megatron.emplace();
  job.megatron->experts = {.dispatcher = MegatronDispatcher::kAllToAll, .expert_ranks = 8};
  // The data-parallel ranks, the experts' own, and 7 peers x 32 channels x 12 MiB.
  EXPECT_EQ(device_parts(h100, job).communicator_bytes(), kMiB * (400 + 400 + 2688));
  job.megatron->experts.dispatcher = MegatronDispatcher::kAllGather;
  EXPECT_EQ(device_parts(h100, job).communicator_bytes(), kMiB * 800);
  job.megatron->experts.dispatcher = MegatronDispatcher::kFlex;
  EXPECT_EQ(device_parts(h100, job).communicator_bytes(), kMiB * 400);
}

// NVIDIA/nccl#964 for A100; at most a GiB where only the growth by rank is known.
TEST(DeviceParts, CommunicatorsFollowTheArchitecture) {
  EXPECT_EQ(device_parts(gpu("sm_80"), sharded(2, 1)).communicator_bytes(), Bytes{544'000'000});
  EXPECT_EQ(device_parts(gpu("sm_80"), sharded(8, 1)).communicator_bytes(), Bytes{688'000'000});
  EXPECT_EQ(device_parts(gpu("gfx942"), sharded(8, 1)).communicator_bytes(), kMiB * (96 + 16));
  EXPECT_EQ(device_parts(gpu("gfx942"), sharded(4096, 1)).communicator_bytes(), kGiB);
}

TEST(DeviceParts, WhatNobodyMeasuredIsCounted) {
  DeviceParts parts{.context = {.bytes = kMiB * 500}};
  parts.communicators = {{.bytes = kMiB * 100, .is_estimate = true}, {.bytes = kMiB * 7}};
  EXPECT_EQ(parts.estimated(), kMiB * 100);
  parts.context.is_estimate = true;
  EXPECT_EQ(parts.estimated(), kMiB * 600);
}

}  // namespace
}  // namespace plimsoll
