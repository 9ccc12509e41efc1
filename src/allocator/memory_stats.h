// The counters of torch.cuda.memory_stats(), under its names: what a program reads of PyTorch's allocator, to
// hold against what the caching heap counted.
//
//   heap.memory_stats().allocated_bytes.all.peak
//   memory_stat_entries(stats)  // {"active.all.allocated", 12}, ... sorted by name
//
// Units: bytes where the name says bytes, else blocks, segments or calls. Source: DeviceStats in
// c10/core/CachingDeviceAllocator.h, memory_stats in torch/cuda/memory.py.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

struct MemoryStat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;  // all that was ever added
  int64_t freed = 0;      // and taken away

  friend bool operator==(const MemoryStat&, const MemoryStat&) = default;
};

struct PoolMemoryStats {
  MemoryStat all, small_pool, large_pool;

  friend bool operator==(const PoolMemoryStats&, const PoolMemoryStats&) = default;
};

struct MemoryStats {
  PoolMemoryStats allocation;      // blocks that the program holds
  PoolMemoryStats segment;         // from cudaMalloc; expandable segments don't count
  PoolMemoryStats active;          // blocks held, or waiting for another stream
  PoolMemoryStats inactive_split;  // free blocks of segments that are partly in use
  PoolMemoryStats allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  MemoryStat oversize_allocations, oversize_segments;  // at or above max_split_size
  int64_t num_alloc_retries = 0;
  int64_t num_ooms = 0;
  int64_t num_sync_all_streams = 0;
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;
  int64_t max_split_size = -1;  // -1: no limit

  friend bool operator==(const MemoryStats&, const MemoryStats&) = default;
};

// As the flat dictionary that Python gives.
std::vector<std::pair<std::string, int64_t>> memory_stat_entries(const MemoryStats& stats);

}  // namespace plimsoll
