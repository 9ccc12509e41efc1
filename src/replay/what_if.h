// The same requests under other settings: the trace's allocations and frees in order, into a heap of its own.
// Blocks from before the trace are allocated first, in order of address.
//
// A run of segments given back is an empty_cache(); a private pool of which one goes back has no users any
// more.
//
// Does not model: what the program would have done otherwise when memory ran out; times, so that a block that
// waits for another stream waits as many events as recorded.
#pragma once

#include "allocator/replay_script.h"
#include "replay/analysis.h"

namespace plimsoll {

Result<WhatIf> play_under(const ReplayScript& script, const std::string& configuration,
                          std::optional<Bytes> capacity);

}  // namespace plimsoll
