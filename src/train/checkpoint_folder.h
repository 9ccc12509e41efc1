// The folders that checkpoints go to: made, and on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace plimsoll {

// With those above it. A folder's name is on the disk only when the folder that holds it is, so each of those
// is synced (fsync).
Result<void> make_synced_folder(const std::filesystem::path& folder);
Result<void> sync_folder(const std::filesystem::path& folder);

// Makes the folder where it is missing and puts a file of the rank's own there and away, so that a place that
// can't be written to is an error before the first step and not after the last one.
Result<void> check_is_writable(const std::filesystem::path& folder, int64_t rank);

tl::unexpected<Error> unwritable_folder(const std::filesystem::path& path, const std::string& why);

}  // namespace plimsoll
