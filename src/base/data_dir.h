// The folder of Plimsoll's facts (data/: gpus, clusters, models). The environment variable PLIMSOLL_DATA
// names it when it is set and not empty; otherwise it is the folder beside the sources that were built.
//
//   std::filesystem::path presets = data_dir() / "models";
#pragma once

#include <filesystem>

namespace plimsoll {

std::filesystem::path data_dir();

}  // namespace plimsoll
