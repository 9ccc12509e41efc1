// `--device N`: the device of a snapshot that a command is asked for.
#pragma once

#include <string>

#include "base/result.h"
#include "importers/torch_snapshot/torch_snapshot.h"

namespace plimsoll {

// Its place among the snapshot's devices. Errors: a device that the snapshot lacks, or no number; they name
// those it has.
Result<size_t> find_device(const TorchSnapshot& snapshot, const std::string& number, const std::string& file);

// "0, 1, 3".
std::string devices_text(const TorchSnapshot& snapshot);

}  // namespace plimsoll
