// The catalog's file format for a node and a cluster of such nodes: data/clusters/<name>.toml, described in
// docs/hardware_files.md.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "hardware/cluster.h"

namespace plimsoll {

Result<Cluster> parse_cluster(std::string_view text, std::string file);
Result<Cluster> read_cluster(const std::filesystem::path& path);

}  // namespace plimsoll
