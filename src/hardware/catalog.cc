#include "hardware/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/data_dir.h"
#include "base/list_folder.h"
#include "hardware/cluster_file.h"
#include "hardware/gpu_file.h"
#include "hardware/name_match.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// One folder of the catalog. Part is Gpu or Cluster.
template <typename Part>
struct Shelf {
  std::string_view folder;  // below data_dir()
  std::string_view part;    // as messages call it
  Result<Part> (*read)(const fs::path&);
};
constexpr Shelf<Gpu> kGpuShelf{"gpus", "GPU", read_gpu};
constexpr Shelf<Cluster> kClusterShelf{"clusters", "cluster", read_cluster};

std::vector<std::string> names_of(const Gpu& gpu) {
  std::vector<std::string> names = {gpu.name};
  names.insert(names.end(), gpu.aliases.begin(), gpu.aliases.end());
  names.insert(names.end(), gpu.device_names.begin(), gpu.device_names.end());
  return names;
}
std::vector<std::string> names_of(const Cluster& cluster) {
  std::vector<std::string> names = {cluster.name};
  names.insert(names.end(), cluster.aliases.begin(), cluster.aliases.end());
  return names;
}

template <typename Part>
bool is_called(const Part& part, std::string_view normalized) {
  const std::vector<std::string> names = names_of(part);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return normalized_name(name) == normalized; });
}

// By name, so that the answer doesn't depend on the file system.
std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::path& file : list_folder(folder))
    if (file.extension() == ".toml") files.push_back(file);
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.stem() < b.stem(); });
  return files;
}

// Whether a string in quotes above the file's first table is that name: a file's names stand there. Cheaper
// than parsing every file, and the few that pass are then parsed.
bool may_be_called(const fs::path& file, std::string_view normalized) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line) && !line.starts_with('[');) {
    size_t open = line.find('"');
    while (open != std::string::npos) {
      const size_t close = line.find('"', open + 1);
      if (close == std::string::npos) break;
      if (normalized_name(std::string_view(line).substr(open + 1, close - open - 1)) == normalized)
        return true;
      open = line.find('"', close + 1);
    }
  }
  return false;
}

// A file of the catalog, whose name is its stem.
template <typename Part>
Result<Part> read_entry(const Shelf<Part>& shelf, const fs::path& file) {
  PLIMSOLL_TRY(part, shelf.read(file));
  if (part.name != file.stem().string())
    return fail({.position = {.file = file.string(), .key = "name"},
                 .message = fmt::format("is \"{}\"", part.name),
                 .expected = fmt::format("\"{}\", the name of the file", file.stem().string())});
  return part;
}

template <typename Part>
Result<std::vector<Part>> list(const Shelf<Part>& shelf) {
  std::vector<Part> parts;
  std::map<std::string, std::string> file_by_name;
  for (const fs::path& file : files_of(data_dir() / shelf.folder)) {
    PLIMSOLL_TRY(part, read_entry(shelf, file));
    for (const std::string& name : names_of(part)) {
      const auto [other, is_new] = file_by_name.emplace(normalized_name(name), file.string());
      if (!is_new)
        return fail(
            {.position = {.file = file.string()},
             .message = fmt::format("claims the name \"{}\", which {} has already", name, other->second),
             .expected = "each name and alias once"});
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// The names of the parts that a user may have meant, nearest first.
template <typename Part>
std::vector<std::string> meant_by(std::string_view name, const std::vector<Part>& parts) {
  constexpr size_t kMost = 4;
  std::vector<std::string> candidates;
  std::map<std::string, std::string> part_by_candidate;
  for (const Part& part : parts)
    for (const std::string& candidate : names_of(part)) {
      candidates.push_back(normalized_name(candidate));
      part_by_candidate[candidates.back()] = part.name;
    }
  std::vector<std::string> meant;
  for (const std::string& candidate : close_matches(normalized_name(name), candidates)) {
    const std::string& part = part_by_candidate[candidate];
    if (meant.size() < kMost && std::find(meant.begin(), meant.end(), part) == meant.end())
      meant.push_back(part);
  }
  return meant;
}

template <typename Part>
Error unknown(const Shelf<Part>& shelf, std::string_view name) {
  const fs::path folder = data_dir() / shelf.folder;
  std::vector<std::string> stems;
  for (const fs::path& file : files_of(folder)) stems.push_back(file.stem().string());
  if (stems.empty())
    return {.position = {.file = folder.string()},
            .message = fmt::format("there are no {} files here", shelf.part),
            .hint = "set PLIMSOLL_DATA to the folder that holds gpus/, clusters/ and models/"};
  const Result<std::vector<Part>> parts = list(shelf);
  const std::vector<std::string> meant = parts ? meant_by(name, *parts) : std::vector<std::string>{};
  return {.message = fmt::format("there is no {} \"{}\" in the catalog", shelf.part, name),
          .expected = meant.empty() ? fmt::format("a file (.toml) or one of {}", fmt::join(stems, ", "))
                                    : fmt::format("a {} of the catalog or a file (.toml)", shelf.part),
          .hint = meant.empty() ? "" : fmt::format("did you mean {}?", fmt::join(meant, " or "))};
}

template <typename Part>
Result<Part> find_by_alias(const Shelf<Part>& shelf, std::string_view name) {
  const std::string normalized = normalized_name(name);
  std::vector<Part> found;
  for (const fs::path& file : files_of(data_dir() / shelf.folder)) {
    if (!may_be_called(file, normalized)) continue;
    PLIMSOLL_TRY(part, read_entry(shelf, file));
    if (is_called(part, normalized)) found.push_back(std::move(part));
  }
  if (found.size() == 1) return std::move(found.front());
  if (found.empty()) return fail(unknown(shelf, name));
  return fail({.position = {.file = found[1].file},
               .message = fmt::format("claims the name \"{}\", which {} has already", name, found[0].file),
               .expected = "each name and alias once"});
}

// A user's own file, not a name: some driver's device names hold '/' too ("AMD Instinct MI250X/MI250").
bool is_path(std::string_view text) {
  std::error_code code;
  return text.ends_with(".toml") ||
         (text.find('/') != std::string_view::npos && fs::exists(fs::path(text), code));
}

template <typename Part>
Result<Part> find(const Shelf<Part>& shelf, std::string_view name_or_path) {
  std::error_code code;
  if (is_path(name_or_path)) {
    if (fs::is_regular_file(name_or_path, code)) return shelf.read(fs::path(name_or_path));
    return fail(
        {.position = {.file = std::string(name_or_path)},
         .message = "is no file",
         .expected = fmt::format("a file that describes a {} (docs/hardware_files.md), or a name of the "
                                 "catalog",
                                 shelf.part),
         .hint = "`plimsoll gpus` lists the catalog"});
  }
  const std::string stem = normalized_name(name_or_path);
  const fs::path file = data_dir() / shelf.folder / (stem + ".toml");
  if (stem.find('/') == std::string::npos && fs::is_regular_file(file, code)) return read_entry(shelf, file);
  return find_by_alias(shelf, name_or_path);
}

}  // namespace

Result<Gpu> find_gpu(std::string_view name_or_path) { return find(kGpuShelf, name_or_path); }
Result<std::vector<Gpu>> list_gpus() { return list(kGpuShelf); }
Result<Cluster> find_cluster(std::string_view name_or_path) { return find(kClusterShelf, name_or_path); }
Result<std::vector<Cluster>> list_clusters() { return list(kClusterShelf); }

Result<Cluster> default_cluster_for(const Gpu& gpu) {
  if (!gpu.default_cluster)
    return fail({.position = {.file = gpu.file, .key = "default_cluster"},
                 .message = fmt::format("is missing, so nothing is known of the node around {}", gpu.name),
                 .hint = "name a cluster of the catalog or a file of your own"});
  PLIMSOLL_TRY(cluster, find_cluster(*gpu.default_cluster));
  cluster.node.is_assumed = true;
  return cluster;
}

Result<Node> default_node_for(const Gpu& gpu) {
  PLIMSOLL_TRY(cluster, default_cluster_for(gpu));
  return std::move(cluster.node);
}

}  // namespace plimsoll
