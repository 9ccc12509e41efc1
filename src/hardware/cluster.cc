#include "hardware/cluster.h"

#include <algorithm>
#include <cassert>

namespace plimsoll {

int64_t scale_up_domain(const Gpu& gpu, const Cluster& cluster) {
  if (!gpu.scale_up) return 1;
  return cluster.scale_up_gpus.value_or(std::min(gpu.scale_up->domain_gpus, cluster.node.gpus));
}

BytesPerSecond host_copy_rate(const Gpu& gpu, const Node& node, int64_t copying) {
  assert(copying >= 1 && copying <= node.gpus);
  const int64_t paths = divide_up(node.gpus, node.gpus_per_host_link);
  const BytesPerSecond of_path = gpu.host.for_copies().best_known() / divide_up(copying, paths);
  return std::min(of_path, node.host_bandwidth / copying);
}

}  // namespace plimsoll
