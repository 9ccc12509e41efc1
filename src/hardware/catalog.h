// The catalog of GPUs and clusters: the files of data/gpus and data/clusters, by name.
//
//   Result<Gpu> gpu = find_gpu("h100");                  // a name, an alias, or what nvidia-smi prints
//   Result<Gpu> mine = find_gpu("./my_gpu.toml");        // a user's own file: any text with '/' or ending in
//   .toml Result<Node> node = default_node_for(*gpu);          // is_assumed is set
//
// Names are compared without regard to case, and ' ' and '_' are '-'. An unknown one is an error that tells
// the nearest names and all names. A name or alias that two files claim is refused by list_gpus and
// list_clusters, and by the find functions when it is the one asked for.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "hardware/cluster.h"
#include "hardware/gpu.h"

namespace plimsoll {

Result<Gpu> find_gpu(std::string_view name_or_path);
Result<std::vector<Gpu>> list_gpus();  // by name

Result<Cluster> find_cluster(std::string_view name_or_path);
Result<std::vector<Cluster>> list_clusters();  // by name

// The system in which this GPU is usually found, marked as assumed. An error when its file names none.
Result<Cluster> default_cluster_for(const Gpu& gpu);
Result<Node> default_node_for(const Gpu& gpu);

}  // namespace plimsoll
