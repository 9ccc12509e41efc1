// The same requests under other settings: the trace's allocations and frees in order, into a heap of its own.
// Blocks from before the trace are allocated first, in order of address.
//
// Segments that the program gave back are an empty_cache(); a private pool of which one goes back has no
// users any more. What malloc() gave back because it had to is left to the heap: on a device of the given
// capacity, or else of what the recorded one had where the trace shows it (replay/give_backs.h). A request
// that failed is tried, and let go if it succeeds.
//
// Does not model: what the program would have done otherwise when memory ran out; times, so that a block that
// waits for another stream waits as many events as recorded.
#pragma once

#include "allocator/replay_script.h"
#include "replay/analysis.h"
#include "replay/give_backs.h"

namespace plimsoll {

// Neither: the recorded one, as far as the trace shows it.
struct WhatIfDevice {
  std::optional<Bytes> capacity;  // for the allocator
  std::optional<Bytes> total;     // that the driver offers; by default the capacity
};

// The answer's configuration is left to the caller.
WhatIf play_under(const ReplayScript& script, const GiveBacks& given_back, const AllocatorSettings& settings,
                  const WhatIfDevice& device);

}  // namespace plimsoll
