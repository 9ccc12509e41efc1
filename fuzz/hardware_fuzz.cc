// The readers of GPU and cluster files take any bytes. What they accept keeps the promises of `Gpu` and
// `Node`.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "hardware/cluster.h"
#include "hardware/cluster_file.h"
#include "hardware/gpu_file.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const plimsoll::Gpu& gpu) {
  require(gpu.context < gpu.usable_memory && gpu.usable_memory <= gpu.nominal_memory);
  require(gpu.memory_bandwidth.value > 0 && gpu.host.for_copies().best_known().value > 0);
  for (size_t i = 0; i < plimsoll::kArithmetics; ++i) require(gpu.measured_rates[i] <= gpu.peak_rates[i]);
  for (const plimsoll::Fact& fact : gpu.facts) require(!fact.source.empty());
}

void check(const plimsoll::Cluster& cluster) {
  const plimsoll::Node& node = cluster.node;
  require(node.gpus >= 1 && node.gpus_per_host_link <= node.gpus && node.host_memory.value > 0);
  plimsoll::Gpu gpu;
  gpu.host.pcie.nominal = plimsoll::kGigabytePerSecond;
  require(plimsoll::host_copy_rate(gpu, node, node.gpus).value > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto gpu = plimsoll::parse_gpu(text, "fuzz.toml")) check(*gpu);
  if (const auto cluster = plimsoll::parse_cluster(text, "fuzz.toml")) check(*cluster);
  return 0;
}
