#include "estimate/nccl.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "strategy/resolve.h"

namespace plimsoll::nccl {
namespace {

// One channel to one peer, both directions. A sender has a head (ncclSendMem), a receiver a tail and a buffer
// for each protocol: LL 512 threads x 8 lines x 8 steps x 16 B, LL128 640 x 120 x 8 x 8 B, Simple
// NCCL_BUFFSIZE. Each is rounded up to CUDA_IPC_MIN.
constexpr Bytes kSender = kMiB * 2;
constexpr Bytes kReceiver = kMiB * 10;

// Over the network, shared by all peers and channels, one for each direction: NCCL_SHARED_STEPS chunks of
// NCCL_P2P_NET_CHUNKSIZE for each channel.
constexpr int64_t kSharedSteps = 16;
constexpr Bytes kNetworkChunk = kKiB * 128;

constexpr int64_t kMostChannels = 32;    // of point-to-point, as many as collectives have on H100 and B200
constexpr int64_t kNetworkChannels = 2;  // to a peer elsewhere, "at least one for each card"
constexpr int64_t kPeersOfABatch = 8;    // NCCL_MAX_DEV_WORK_P2P_PER_BATCH
constexpr double kOldLink = 25e9, kNewLink = 50e9;  // of NVLink 2 to 4 and 5, one direction

int64_t power_of_2_from(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

// Ranks that reach each other without the network. Without NVLink, or with bridges between pairs, a node's.
int64_t domain_of(const Gpu& gpu, int64_t gpus_per_node) {
  const bool is_rack = gpu.scale_up && gpu.scale_up->topology == Topology::kSwitch;
  return is_rack ? std::max(gpu.scale_up->domain_gpus, gpus_per_node) : gpus_per_node;
}

// NVLinks on the path to the peer that is reached over the fewest: all peers get that one's channels.
int64_t links_to_peer(const Gpu& gpu, int64_t peers) {
  if (!gpu.scale_up || gpu.scale_up->link.kind != LinkKind::kNvlink) return 0;
  const ScaleUp& scale_up = *gpu.scale_up;
  const double one = compute_capability_of(gpu.architecture).value_or(0) >= 100 ? kNewLink : kOldLink;
  const int64_t links = std::max<int64_t>(1, std::llround(scale_up.link.nominal.value / one));
  switch (scale_up.topology) {
    case Topology::kSwitch:
      return links;
    case Topology::kMesh:
      return std::max<int64_t>(1, links / std::max<int64_t>(1, scale_up.domain_gpus - 1));
    case Topology::kBridge:
      return peers < scale_up.domain_gpus ? links : 0;
  }
  return 0;
}

// Two for each link, or for PCIe.
int64_t channels_within(const Gpu& gpu, int64_t peers) {
  return std::min(kMostChannels, power_of_2_from(2 * std::max<int64_t>(1, links_to_peer(gpu, peers))));
}

}  // namespace

int64_t Group::in_one(int64_t domain) const { return std::clamp<int64_t>(domain / stride, 1, ranks); }

int64_t channels_to_peer(const Gpu& gpu, int64_t gpus_per_node, Group group) {
  const int64_t within = channels_within(gpu, group.ranks - 1);
  if (group.in_one(domain_of(gpu, gpus_per_node)) == group.ranks) return within;
  int64_t channels = std::min(within, kNetworkChannels);
  const int64_t batches = (group.ranks + kPeersOfABatch - 1) / kPeersOfABatch;
  while (channels > 1 && channels * batches > within) channels /= 2;
  return channels;
}

namespace {
Bytes held(const Gpu& gpu, int64_t gpus_per_node, Group group, int64_t peers_within) {
  Bytes sum = (kSender + kReceiver) * (channels_to_peer(gpu, gpus_per_node, group) * peers_within);
  if (group.in_one(domain_of(gpu, gpus_per_node)) < group.ranks)
    sum += kNetworkChunk * (2 * kSharedSteps * channels_within(gpu, group.ranks - 1));
  return sum;
}
}  // namespace

Bytes neighbours(const Gpu& gpu, int64_t gpus_per_node, Group group) {
  const int64_t peers = std::min<int64_t>(2, group.ranks - 1);
  const int64_t within = group.in_one(domain_of(gpu, gpus_per_node)) - 1;
  return held(gpu, gpus_per_node, group, std::min(peers, within));
}

Bytes all_to_all(const Gpu& gpu, int64_t gpus_per_node, Group group) {
  return held(gpu, gpus_per_node, group, group.in_one(domain_of(gpu, gpus_per_node)) - 1);
}

}  // namespace plimsoll::nccl
