// One statistic of the caching allocator, kept for its small and its large blocks and for both together:
// current value, peak, and all that was ever added. As cheap as a handful of additions.
//
// Invariant: 0 <= current <= peak <= added, for each half and for both. Source: StatArray in
// c10/core/CachingDeviceAllocator.h, with increase_stat and decrease_stat of
// c10/cuda/CUDACachingAllocator.cpp.
#pragma once

#include <cstdint>

#include "allocator/heap.h"
#include "allocator/memory_stats.h"

namespace plimsoll {

class PoolCounter {
 public:
  void add(bool is_small, uint64_t amount) {
    Half& half = halves_[is_small ? 0 : 1];
    half.current += amount;
    half.added += amount;
    if (half.current > half.peak) half.peak = half.current;
    const uint64_t all = current();
    if (all > peak_) peak_ = all;
  }
  void remove(bool is_small, uint64_t amount) { halves_[is_small ? 0 : 1].current -= amount; }
  // The net of several steps counts as one.
  void change(bool is_small, int64_t net) {
    if (net > 0) add(is_small, static_cast<uint64_t>(net));
    if (net < 0) remove(is_small, static_cast<uint64_t>(-net));
  }
  void reset_peak() {
    for (Half& half : halves_) half.peak = half.current;
    peak_ = current();
  }

  uint64_t current() const { return halves_[0].current + halves_[1].current; }
  uint64_t added() const { return halves_[0].added + halves_[1].added; }
  Level level() const {
    return {.current = Bytes{static_cast<int64_t>(current())}, .peak = Bytes{static_cast<int64_t>(peak_)}};
  }
  PoolMemoryStats stats() const {
    return {.all = stat_of(current(), peak_, added()),
            .small_pool = stat_of(halves_[0].current, halves_[0].peak, halves_[0].added),
            .large_pool = stat_of(halves_[1].current, halves_[1].peak, halves_[1].added)};
  }

 private:
  struct Half {
    uint64_t current = 0, peak = 0, added = 0;
  };
  static MemoryStat stat_of(uint64_t current, uint64_t peak, uint64_t added) {
    return {.current = static_cast<int64_t>(current),
            .peak = static_cast<int64_t>(peak),
            .allocated = static_cast<int64_t>(added),
            .freed = static_cast<int64_t>(added - current)};
  }

  Half halves_[2];  // small, large
  uint64_t peak_ = 0;
};

}  // namespace plimsoll
