#include "hardware/cluster_file.h"

#include "hardware/fact_reader.h"

namespace plimsoll {
namespace {

constexpr Range kGpus{1, 1024};
constexpr Range kHostMemoryGib{4, 65536};
constexpr Range kHostRate{5, 100'000};  // GB/s
constexpr Range kSockets{1, 16};
constexpr Range kCores{1, 4096};
constexpr Range kAdapters{1, 64};
constexpr Range kAdapterRate{0.1, 1000};  // GB/s
constexpr Range kDrives{1, 256};
constexpr Range kDiskGb{50, 10'000'000};
constexpr Range kDiskRate{0.1, 10'000};  // GB/s
constexpr Range kDomainGpus{2, 4096};
constexpr Range kNodes{1, 1'000'000};

Network read_network(FactReader& in) {
  const LinkKind kind = in.required_word("network.kind", link_kind_from_name, "infiniband or ethernet");
  if (kind != LinkKind::kInfiniband && kind != LinkKind::kEthernet)
    in.refuse("network.kind", "is no network", "infiniband or ethernet");
  Network network{.adapter = {.kind = kind}};
  network.adapter.nominal = in.required<BytesPerSecond>("network.nominal_gb_per_s", kAdapterRate);
  network.adapter.usable = in.optional<BytesPerSecond>("network.usable_gb_per_s", kAdapterRate);
  if (network.adapter.usable && *network.adapter.usable > network.adapter.nominal)
    in.refuse("network.usable_gb_per_s.value", "is more than the wire carries", "at most nominal_gb_per_s");
  network.adapters = in.required_count("network.adapters", kAdapters);
  network.shares_pcie = in.flag("network.shares_pcie");
  return network;
}

Disks read_disks(FactReader& in) {
  return {.drives = in.required_count("disks.drives", kDrives),
          .capacity = in.required<Bytes>("disks.capacity_gb", kDiskGb),
          .read_rate = in.required<BytesPerSecond>("disks.read_gb_per_s", kDiskRate),
          .write_rate = in.required<BytesPerSecond>("disks.write_gb_per_s", kDiskRate)};
}

Node read_node(FactReader& in) {
  Node node{.built_with = in.texts("built_with")};
  node.gpus = in.required_count("node.gpus", kGpus);
  node.host_memory = in.required<Bytes>("node.host_memory_gib", kHostMemoryGib);
  node.host_bandwidth = in.required<BytesPerSecond>("node.host_bandwidth_gb_per_s", kHostRate);
  node.cpu_sockets = in.required_count("node.cpu_sockets", kSockets);
  node.cpu_cores = in.required_count("node.cpu_cores", kCores);
  node.gpus_per_host_link = in.required_count("node.gpus_per_host_link", kGpus);
  if (node.gpus_per_host_link > node.gpus)
    in.refuse("node.gpus_per_host_link.value", "is more than the node's GPUs", "at most node.gpus");
  if (in.has_section("network")) node.network = read_network(in);
  if (in.has_section("disks")) node.disks = read_disks(in);
  return node;
}

Result<Cluster> cluster_of(TomlDocument document) {
  FactReader in(std::move(document));
  Cluster cluster{.name = in.required_text("name"), .title = in.required_text("title"), .file = in.file()};
  cluster.aliases = in.texts("aliases");
  cluster.node = read_node(in);
  cluster.node.cluster = cluster.name;
  cluster.scale_up_gpus = in.optional_count("cluster.scale_up_gpus", kDomainGpus);
  cluster.most_nodes = in.optional_count("cluster.most_nodes", kNodes);
  PLIMSOLL_CHECK(in.finish());
  cluster.node.facts = in.facts();
  return cluster;
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view text, std::string file) {
  PLIMSOLL_TRY(document, parse_toml(text, std::move(file)));
  return cluster_of(std::move(document));
}

Result<Cluster> read_cluster(const std::filesystem::path& path) {
  PLIMSOLL_TRY(document, read_toml(path));
  return cluster_of(std::move(document));
}

}  // namespace plimsoll
