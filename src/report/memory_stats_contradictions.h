// Counters of torch.cuda.memory_stats() that can't all be true. What holds at every moment, whatever was
// reset when:
//
//   current                             <= peak
//   allocated - freed                   <= current           (both are since the last reset, or the start)
//   current, allocated, freed of all    =  small pool + large pool
//   peak of all                         between the larger pool's and the sum of both: the pools may have had
//                                       their peaks at different moments
//   allocated_bytes, requested_bytes    <= active_bytes <= reserved_bytes   (current and peak, of each pool)
//   allocation                          <= active
//   active_bytes + inactive_split_bytes <= reserved_bytes                   (current)
//   private pools together              <= reserved_bytes                   (current)
//
// requested_bytes may be above allocated_bytes: it counts a block until it can be used again, as active_bytes
// does. cudaMallocAsync counts no pools, and neither do some other devices: sums are of counters above 0.
// Of a table of memory_summary() each as far as its units allow. Of pinned host memory, whose counters are
// kept by size class, only the first two. Counters of a law that is broken are not looked at again, so that
// one wrong counter isn't blamed on all.
//
// Source: c10/core/Allocator.h (Stat), c10/cuda/CUDACachingAllocator.cpp (alloc_found_block(), free(),
// free_block(), alloc_block(), resetPeakStats()), CUDAMallocAsyncAllocator.cpp (getDeviceStats()),
// ATen/core/CachingHostAllocator.h.
#pragma once

#include <string>
#include <vector>

#include "trace/memory_stats.h"

namespace plimsoll {

struct StatsContradiction {
  std::string text;
  std::vector<std::string> counters;
};

std::vector<StatsContradiction> contradictions_of(const RecordedMemoryStats& stats);

}  // namespace plimsoll
