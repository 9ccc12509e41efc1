// What holds of PyTorch's counters holds of the twin's, whatever is called under whatever settings.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "allocator/caching_heap.h"
#include "allocator/heap_calls.h"
#include "report/memory_stats_contradictions.h"

namespace plimsoll {
namespace {

RC_GTEST_PROP(MemoryStatsContradictionsLaw, TheTwinsCountersHaveNone, ()) {
  SimulatedDevice device(any_capacity());
  SlowStreams clock;
  CachingHeap heap({.settings = any_settings(), .device = &device, .clock = &clock});
  std::vector<BlockId> live;
  make_calls(any_calls(), heap, live, [](const CachingHeap&) {});
  RecordedMemoryStats stats;
  for (const auto& [name, value] : memory_stat_entries(heap.memory_stats())) stats.counters[name] = value;
  for (const StatsContradiction& contradiction : contradictions_of(stats)) RC_FAIL(contradiction.text);
}

}  // namespace
}  // namespace plimsoll
