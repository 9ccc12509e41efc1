// The catalog's file format for one GPU: data/gpus/<name>.toml, described in docs/hardware_files.md.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "hardware/gpu.h"

namespace plimsoll {

Result<Gpu> parse_gpu(std::string_view text, std::string file);
Result<Gpu> read_gpu(const std::filesystem::path& path);

}  // namespace plimsoll
