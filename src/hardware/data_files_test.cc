// Laws that every file of data/gpus and data/clusters obeys: a new file needs no test of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware/catalog.h"
#include "hardware/name_match.h"

namespace plimsoll {
namespace {

using testing::Contains;

std::vector<Gpu> all_gpus() {
  Result<std::vector<Gpu>> gpus = list_gpus();
  EXPECT_TRUE(gpus) << gpus.error().to_text();
  return gpus ? *std::move(gpus) : std::vector<Gpu>{};
}

std::vector<Cluster> all_clusters() {
  Result<std::vector<Cluster>> clusters = list_clusters();
  EXPECT_TRUE(clusters) << clusters.error().to_text();
  return clusters ? *std::move(clusters) : std::vector<Cluster>{};
}

TEST(DataFiles, EveryGpuReadsAndNoNameIsTakenTwice) { EXPECT_GE(all_gpus().size(), 25); }

TEST(DataFiles, EveryClusterReadsAndNoNameIsTakenTwice) { EXPECT_GE(all_clusters().size(), 8); }

TEST(DataFiles, NamesAndAliasesAreWrittenAsTheyAreCompared) {
  for (const Gpu& gpu : all_gpus())
    for (const std::string& name : gpu.aliases) EXPECT_EQ(name, normalized_name(name)) << gpu.file;
  for (const Cluster& cluster : all_clusters())
    for (const std::string& name : cluster.aliases) EXPECT_EQ(name, normalized_name(name)) << cluster.file;
}

TEST(DataFiles, EveryNameFindsItsGpu) {
  for (const Gpu& gpu : all_gpus()) {
    std::vector<std::string> names = gpu.aliases;
    names.insert(names.end(), gpu.device_names.begin(), gpu.device_names.end());
    names.push_back(gpu.name);
    for (const std::string& name : names) {
      const Result<Gpu> found = find_gpu(name);
      ASSERT_TRUE(found) << name << ": " << found.error().to_text();
      EXPECT_EQ(found->name, gpu.name) << name;
    }
  }
}

TEST(DataFiles, DefaultClustersExistAndAreBuiltForTheirGpu) {
  for (const Gpu& gpu : all_gpus()) {
    const Result<Node> node = default_node_for(gpu);
    ASSERT_TRUE(node) << gpu.name << ": " << node.error().to_text();
    if (node->built_with.empty()) continue;
    EXPECT_THAT(node->built_with, Contains(gpu.name)) << node->cluster;
  }
}

TEST(DataFiles, GpusOfClustersExist) {
  for (const Cluster& cluster : all_clusters())
    for (const std::string& name : cluster.node.built_with)
      EXPECT_EQ(find_gpu(name)->name, name) << cluster.file;
}

// What no driver takes more than: a slip of the pen in either number.
TEST(DataFiles, UsableMemoryIsCloseToNominal) {
  for (const Gpu& gpu : all_gpus()) {
    const double share =
        static_cast<double>(gpu.usable_memory.value) / static_cast<double>(gpu.nominal_memory.value);
    EXPECT_GT(share, 0.9) << gpu.name;
  }
}

TEST(DataFiles, NarrowerNumbersAreNotSlower) {
  for (const Gpu& gpu : all_gpus()) {
    FlopsPerSecond wider;
    for (const Arithmetic arithmetic : {Arithmetic::kFloat32, Arithmetic::kTf32, Arithmetic::kFloat16,
                                        Arithmetic::kFloat8, Arithmetic::kFloat4}) {
      const FlopsPerSecond rate = gpu.peak(arithmetic).value_or(wider);
      EXPECT_GE(rate, wider) << gpu.name << " " << name_of(arithmetic);
      wider = rate;
    }
  }
}

TEST(DataFiles, WorkspaceIsPyTorchsDefaultForTheArchitecture) {
  for (const Gpu& gpu : all_gpus()) {
    const std::string& arch = gpu.architecture;
    int64_t bytes = 8519680;  // :4096:2:16:8
    if (arch.starts_with("sm_9") || arch.starts_with("sm_10") || arch.starts_with("sm_12")) bytes = 32 << 20;
    if (gpu.vendor == Vendor::kAmd)
      bytes = arch.starts_with("gfx94") || arch.starts_with("gfx95") ? 128 << 20 : 32 << 20;
    EXPECT_EQ(gpu.cublas_workspace, Bytes{bytes}) << gpu.name;
  }
}

}  // namespace
}  // namespace plimsoll
