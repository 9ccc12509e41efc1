// The granule of PyTorch's CUDA caching allocator: every block is a multiple of it, so live bytes are counted
// in it. Source: kMinBlockSize in c10/core/AllocatorConfig.h.
#pragma once

#include "base/units.h"

namespace plimsoll {

inline constexpr Bytes kAllocationBlock{512};

// What a storage of so many bytes takes; an empty one takes nothing.
constexpr Bytes round_to_block(Bytes bytes) { return round_up(bytes, kAllocationBlock); }

}  // namespace plimsoll
