#include "hardware/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "hardware/cluster_file.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

std::string cluster_text() {
  return R"(name = "test-cluster"
title = "A cluster of the tests"
built_with = ["test-gpu"]

[sources]
sheet = "a data sheet"

[node]
gpus = { value = 8, source = "sheet" }
host_memory_gib = { value = 1024, source = "sheet" }
host_bandwidth_gb_per_s = { value = 160, source = "sheet" }
cpu_sockets = { value = 2, source = "sheet" }
cpu_cores = { value = 128, source = "sheet" }
gpus_per_host_link = { value = 2, source = "sheet" }

[network]
kind = "infiniband"
nominal_gb_per_s = { value = 25, source = "sheet" }
adapters = { value = 8, source = "sheet" }
shares_pcie = true
)";
}

std::string with(const std::string& before, const std::string& after) {
  std::string text = cluster_text();
  const size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return text.replace(at, before.size(), after);
}

std::string error_of(const std::string& text) {
  const Result<Cluster> cluster = parse_cluster(text, "my.toml");
  return cluster ? "no error" : cluster.error().to_text();
}

Gpu gpu_with_link(int64_t gigabytes_per_second) {
  Gpu gpu;
  gpu.host.pcie.nominal = kGigabytePerSecond * gigabytes_per_second;
  return gpu;
}

TEST(ClusterFile, Reads) {
  const Result<Cluster> cluster = parse_cluster(cluster_text(), "my.toml");
  ASSERT_TRUE(cluster) << cluster.error().to_text();
  EXPECT_EQ(cluster->node.cluster, "test-cluster");
  EXPECT_EQ(cluster->node.host_memory, kGiB * 1024);
  EXPECT_EQ(cluster->node.network->adapter.kind, LinkKind::kInfiniband);
  EXPECT_TRUE(cluster->node.network->shares_pcie);
  EXPECT_FALSE(cluster->node.disks);
  EXPECT_FALSE(cluster->node.is_assumed);
}

TEST(ClusterFile, MistakesAreRefused) {
  EXPECT_THAT(error_of(with("gpus_per_host_link = { value = 2", "gpus_per_host_link = { value = 16")),
              HasSubstr("is more than the node's GPUs"));
  EXPECT_THAT(error_of(with("\"infiniband\"", "\"nvlink\"")), HasSubstr("is no network"));
  EXPECT_THAT(error_of(with("shares_pcie = true", "shares_pcie = 1")),
              HasSubstr("is neither true nor false"));
  EXPECT_THAT(error_of(with("[\"test-gpu\"]", "\"test-gpu\"")), HasSubstr("is no list"));
  EXPECT_THAT(error_of(with("[network]", "[disks]\ndrives = { value = 1, source = \"sheet\" }\n[network]")),
              HasSubstr("key \"disks.capacity_gb\": is missing"));
}

TEST(HostCopyRate, IsAShareOfThePathAndOfTheHostMemory) {
  const Node node = parse_cluster(cluster_text(), "my.toml")->node;
  const Gpu gpu = gpu_with_link(30);
  EXPECT_EQ(host_copy_rate(gpu, node, 1), kGigabytePerSecond * 30);  // a path of its own
  EXPECT_EQ(host_copy_rate(gpu, node, 4), kGigabytePerSecond * 30);  // four paths
  EXPECT_EQ(host_copy_rate(gpu, node, 5), kGigabytePerSecond * 15);  // two share one
  EXPECT_EQ(host_copy_rate(gpu, node, 8), kGigabytePerSecond * 15);
  EXPECT_EQ(host_copy_rate(gpu_with_link(60), node, 8), kGigabytePerSecond * 20);  // the memory's share
}

TEST(HostCopyRate, TakesTheLinkOfTheModuleWhereThereIsOne) {
  const Node node = parse_cluster(cluster_text(), "my.toml")->node;
  Gpu gpu = gpu_with_link(30);
  gpu.host.chip_to_chip = Link{.kind = LinkKind::kC2c, .nominal = kGigabytePerSecond * 450};
  EXPECT_EQ(host_copy_rate(gpu, node, 1), kGigabytePerSecond * 160);  // the memory's
}

TEST(ScaleUpDomain, IsTheNodesUnlessTheClusterSaysMore) {
  Cluster cluster = *parse_cluster(cluster_text(), "my.toml");
  Gpu gpu;
  EXPECT_EQ(scale_up_domain(gpu, cluster), 1);
  gpu.scale_up = ScaleUp{.domain_gpus = 72};
  EXPECT_EQ(scale_up_domain(gpu, cluster), 8);
  gpu.scale_up->domain_gpus = 2;
  EXPECT_EQ(scale_up_domain(gpu, cluster), 2);
  cluster.scale_up_gpus = 72;
  EXPECT_EQ(scale_up_domain(gpu, cluster), 72);
}

TEST(Rates, TimeIsRoundedUpAndSaturates) {
  EXPECT_EQ(time_at(Bytes{1'000'000}, kGigabytePerSecond), Nanoseconds{1'000'000});
  EXPECT_EQ(time_at(Bytes{1}, kGigabytePerSecond * 3), Nanoseconds{1});
  EXPECT_EQ(time_at(Flops{2'000'000'000'000}, kTeraflopPerSecond), Nanoseconds{2'000'000'000});
  EXPECT_EQ(time_at(Bytes{kMaxQuantity}, BytesPerSecond{1}), Nanoseconds{kMaxQuantity});
}

}  // namespace
}  // namespace plimsoll
