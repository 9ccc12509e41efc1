// What the memory instants of a profiler's trace say: peaks, the curve, what was alive at the peak, where it
// ran out. The instants have no stacks, so blocks are told by size and by when they were allocated.
#pragma once

#include <string>
#include <vector>

#include "trace/profiled_memory.h"

namespace plimsoll {

// Of one device: derived from its instants.
struct ProfiledPeak {
  Bytes allocated, reserved;  // the highest totals
  size_t allocated_at = 0;    // instant
  size_t reserved_at = 0;
  std::vector<MemoryInstant> blocks;  // alive at the allocated peak and born in the trace, largest first
  Bytes earlier;                      // the rest of the peak: from before the trace
  int64_t unknown_frees = 0;          // of blocks from before the trace
};
// REQUIRES the device has instants.
ProfiledPeak peak_of(const ProfiledDevice& device);

struct ProfiledMemoryPageOptions {
  size_t most_blocks = 15;
};

std::string profiled_memory_page(const std::string& file, const ProfiledMemory& memory,
                                 const std::vector<std::string>& notes,
                                 const ProfiledMemoryPageOptions& options = {});
std::string profiled_memory_json(const std::string& file, const ProfiledMemory& memory,
                                 const std::vector<std::string>& notes);

}  // namespace plimsoll
