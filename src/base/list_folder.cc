#include "base/list_folder.h"

#include <algorithm>
#include <system_error>

namespace plimsoll {

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code problem;
  // A range-based loop would step with the operator that throws.
  std::filesystem::directory_iterator entry(folder, problem);
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem))
    paths.push_back(entry->path());
  std::ranges::sort(paths);
  return paths;
}

}  // namespace plimsoll
