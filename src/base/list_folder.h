// What a folder holds.
//
//   for (const std::filesystem::path& file : list_folder(data_dir() / "models")) ...
#pragma once

#include <filesystem>
#include <vector>

namespace plimsoll {

// By name. Of a folder that can't be read what could be read of it: nothing is thrown.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

}  // namespace plimsoll
