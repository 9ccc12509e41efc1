// What the counters of torch.cuda.memory_stats() say.
#pragma once

#include <string>
#include <vector>

#include "trace/memory_stats.h"

namespace plimsoll {

std::string memory_stats_page(const std::string& file, const RecordedMemoryStats& stats);
// The first device, and the others under "other_devices". REQUIRES one at least.
std::string memory_stats_json(const std::string& file, const std::vector<RecordedMemoryStats>& devices);

}  // namespace plimsoll
