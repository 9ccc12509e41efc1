#include "estimate/nccl.h"

#include <gtest/gtest.h>

#include "hardware/catalog.h"

namespace plimsoll::nccl {
namespace {

Gpu gpu(std::string_view name) {
  Result<Gpu> found = find_gpu(name);
  if (!found) throw std::runtime_error(found.error().message);
  return *found;
}

TEST(NcclGroup, RanksFillDomainsInTheirOrder) {
  EXPECT_EQ((Group{.ranks = 8, .stride = 1}.in_one(8)), 8);
  EXPECT_EQ((Group{.ranks = 64, .stride = 1}.in_one(8)), 8);
  EXPECT_EQ((Group{.ranks = 4, .stride = 4}.in_one(8)), 2);
  EXPECT_EQ((Group{.ranks = 4, .stride = 8}.in_one(8)), 1);
  EXPECT_EQ((Group{.ranks = 4, .stride = 64}.in_one(8)), 1);
}

// NCCL's logs: "24 coll channels, 32 p2p channels, 32 p2p channels per peer" on A100, 16 on H800 (nccl#892),
// 32 on H100 (nccl#1685); 2 over PCIe.
TEST(NcclChannels, FollowTheLinks) {
  const Group node{.ranks = 8, .stride = 1};
  EXPECT_EQ(channels_to_peer(gpu("a100-80gb"), 8, node), 32);
  EXPECT_EQ(channels_to_peer(gpu("h800-80gb"), 8, node), 16);
  EXPECT_EQ(channels_to_peer(gpu("h100-80gb"), 8, node), 32);
  EXPECT_EQ(channels_to_peer(gpu("b200"), 8, node), 32);
  EXPECT_EQ(channels_to_peer(gpu("l4"), 8, node), 2);
  EXPECT_EQ(channels_to_peer(gpu("v100-32gb"), 8, node), 2);
}

TEST(NcclChannels, PairsWithABridgeUseItAlone) {
  EXPECT_EQ(channels_to_peer(gpu("a100-80gb-pcie"), 8, {.ranks = 2, .stride = 1}), 32);
  EXPECT_EQ(channels_to_peer(gpu("a100-80gb-pcie"), 8, {.ranks = 8, .stride = 1}), 2);
}

// nccl#1189: 4 ranks on two nodes, 2 channels to a peer. Fewer where many peers share the channels.
TEST(NcclChannels, AreFewOverTheNetwork) {
  EXPECT_EQ(channels_to_peer(gpu("h100-80gb"), 8, {.ranks = 16, .stride = 1}), 2);
  EXPECT_EQ(channels_to_peer(gpu("h100-80gb"), 8, {.ranks = 256, .stride = 1}), 1);
}

// 7 peers, 32 channels, 12 MiB.
TEST(NcclAllToAll, WithinANodeConnectsEveryPair) {
  EXPECT_EQ(all_to_all(gpu("h100-80gb"), 8, {.ranks = 8, .stride = 1}), kMiB * 2688);
  EXPECT_EQ(all_to_all(gpu("h800-80gb"), 8, {.ranks = 8, .stride = 1}), kMiB * 1344);
}

// 7 peers x 2 channels x 12 MiB, and 2 x 32 channels x 16 steps x 128 KiB.
TEST(NcclAllToAll, AcrossNodesSharesBuffers) {
  EXPECT_EQ(all_to_all(gpu("h100-80gb"), 8, {.ranks = 16, .stride = 1}), kMiB * (168 + 128));
  EXPECT_EQ(all_to_all(gpu("h100-80gb"), 8, {.ranks = 16, .stride = 8}), kMiB * 128);
}

TEST(NcclNeighbours, AreTwoAtMost) {
  EXPECT_EQ(neighbours(gpu("h100-80gb"), 8, {.ranks = 1, .stride = 1}), Bytes{});
  EXPECT_EQ(neighbours(gpu("h100-80gb"), 8, {.ranks = 2, .stride = 4}), kMiB * 384);
  EXPECT_EQ(neighbours(gpu("h100-80gb"), 8, {.ranks = 8, .stride = 1}), kMiB * 768);
  EXPECT_EQ(neighbours(gpu("h100-80gb"), 8, {.ranks = 4, .stride = 4}), kMiB * (24 + 128));
  EXPECT_EQ(neighbours(gpu("h100-80gb"), 8, {.ranks = 16, .stride = 64}), kMiB * 128);
}

}  // namespace
}  // namespace plimsoll::nccl
