#include "allocator/memory_stats.h"

#include <algorithm>

namespace plimsoll {
namespace {

using Entries = std::vector<std::pair<std::string, int64_t>>;

void add_stat(Entries& entries, const std::string& name, const MemoryStat& stat) {
  entries.emplace_back(name + ".current", stat.current);
  entries.emplace_back(name + ".peak", stat.peak);
  entries.emplace_back(name + ".allocated", stat.allocated);
  entries.emplace_back(name + ".freed", stat.freed);
}

void add_stats(Entries& entries, const std::string& name, const PoolMemoryStats& stats) {
  add_stat(entries, name + ".all", stats.all);
  add_stat(entries, name + ".small_pool", stats.small_pool);
  add_stat(entries, name + ".large_pool", stats.large_pool);
}

}  // namespace

Entries memory_stat_entries(const MemoryStats& stats) {
  Entries entries = {{"max_split_size", stats.max_split_size},
                     {"num_alloc_retries", stats.num_alloc_retries},
                     {"num_device_alloc", stats.num_device_alloc},
                     {"num_device_free", stats.num_device_free},
                     {"num_ooms", stats.num_ooms},
                     {"num_sync_all_streams", stats.num_sync_all_streams}};
  add_stats(entries, "active", stats.active);
  add_stats(entries, "active_bytes", stats.active_bytes);
  add_stats(entries, "allocated_bytes", stats.allocated_bytes);
  add_stats(entries, "allocation", stats.allocation);
  add_stats(entries, "inactive_split", stats.inactive_split);
  add_stats(entries, "inactive_split_bytes", stats.inactive_split_bytes);
  add_stat(entries, "oversize_allocations", stats.oversize_allocations);
  add_stat(entries, "oversize_segments", stats.oversize_segments);
  add_stats(entries, "requested_bytes", stats.requested_bytes);
  add_stats(entries, "reserved_bytes", stats.reserved_bytes);
  add_stats(entries, "segment", stats.segment);
  std::ranges::sort(entries);
  return entries;
}

}  // namespace plimsoll
