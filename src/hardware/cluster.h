// The machine around the GPUs: a node (one host with its GPUs, memory, disks and network adapters) and a
// cluster of equal nodes. The catalog (hardware/catalog.h) reads both from one file,
// data/clusters/<name>.toml.
//
//   Result<Node> node = default_node_for(gpu);
//   Bytes per_rank = node->host_memory / node->gpus;
//
// Does not model: shared fabrics (every node reaches every other at its adapters' rate), other jobs on the
// host, the operating system's own memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "hardware/fact.h"
#include "hardware/gpu.h"
#include "hardware/link.h"
#include "hardware/rates.h"

namespace plimsoll {

struct Network {
  Link adapter;              // one of them, per direction
  int64_t adapters = 0;      // for the GPUs' traffic; storage and management ones do not count
  bool shares_pcie = false;  // with the GPUs' copies to the host, so that offload and network contend
};

// All drives of a node together.
struct Disks {
  int64_t drives = 0;
  Bytes capacity;
  BytesPerSecond read_rate;   // sequential
  BytesPerSecond write_rate;  // sequential
};

struct Node {
  std::string cluster;                  // the name of its file: "hgx-h100"
  std::vector<std::string> built_with;  // GPUs by name; empty: any, a generic host
  int64_t gpus = 1;

  Bytes host_memory;
  BytesPerSecond host_bandwidth;  // of all memory channels together, nominal
  int64_t cpu_sockets = 1;
  int64_t cpu_cores = 0;           // physical, of all sockets
  int64_t gpus_per_host_link = 1;  // that share one path to the CPU, so that their copies share its rate

  std::optional<Network> network;  // empty: a machine on its own
  std::optional<Disks> disks;      // local NVMe; empty: none to offload to

  std::vector<Fact> facts;  // of every number of the file, in its order
  bool is_assumed = false;  // the default for a GPU, not the user's choice: reports say so
};

struct Cluster {
  std::string name;  // "hgx-h100"
  std::string title;
  std::vector<std::string> aliases;
  Node node;
  std::optional<int64_t> scale_up_gpus;  // of one domain that spans nodes
  std::optional<int64_t> most_nodes;     // empty: as many as the user says
  std::string file;                      // it was read from
};

// GPUs that reach each other over `gpu`'s scale-up link in this cluster; 1 when it has none.
int64_t scale_up_domain(const Gpu& gpu, const Cluster& cluster);

// What each of `copying` GPUs of a node gets when all of them copy to the host, or all from it, at once: a
// fair share of its path to the CPU and of the host's memory. The copying GPUs are spread over the paths.
// REQUIRES 1 <= copying <= node.gpus. Does not model: the network's traffic on the same path.
BytesPerSecond host_copy_rate(const Gpu& gpu, const Node& node, int64_t copying);

}  // namespace plimsoll
