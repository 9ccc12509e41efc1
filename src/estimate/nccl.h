// What NCCL holds on a GPU for a communicator's point-to-point connections: send and receive of pipeline
// stages, all-to-all of experts. Each is made at the first call, for all of its channels, and stays.
//
//   const nccl::Group stages{.ranks = 4, .stride = 8};           // every eighth rank
//   Bytes held = nccl::neighbours(gpu, 8, stages);               // receives from one, sends to the other
//   Bytes held = nccl::all_to_all(gpu, 8, {.ranks = 8, .stride = 1});
//
// Source: NVIDIA/nccl 2.30: src/transport/p2p.cc (buffers of a connection), src/transport/net.cc
// (sharedNetBuffersInit, NCCL_SHARED_STEPS), src/graph/paths.cc (ncclTopoComputeP2pChannels). Seen:
// nccl#1685, 8 H100: 32 channels to every peer, each with one buffer of 2 MiB and one of 10 MiB. Does not
// model: rings, trees and NVLink SHARP of collectives; NCCL's settings (NCCL_BUFFSIZE,
// NCCL_MAX_P2P_NCHANNELS); buffers that a GPU holds for its neighbours' traffic (PXN); shared memory of a
// host whose GPUs have no peer access; several network cards for a GPU.
#pragma once

#include <cstdint>

#include "hardware/gpu.h"

namespace plimsoll::nccl {

// Ranks of a communicator: so many, each `stride` after the one before. Both positive.
struct Group {
  int64_t ranks = 1;
  int64_t stride = 1;

  // How many of them share a domain of so many GPUs, where ranks fill domains in their order.
  int64_t in_one(int64_t domain) const;
};

// To one peer: over NVLink within the domain, over PCIe where the GPU has no NVLink, over the network else.
int64_t channels_to_peer(const Gpu& gpu, int64_t gpus_per_node, Group group);

// Of the fullest rank: one that has a neighbour on either side.
Bytes neighbours(const Gpu& gpu, int64_t gpus_per_node, Group group);
Bytes all_to_all(const Gpu& gpu, int64_t gpus_per_node, Group group);

}  // namespace plimsoll::nccl
