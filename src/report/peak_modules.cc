#include "report/peak_modules.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/block.h"
#include "base/module_path.h"

namespace plimsoll {
namespace {

// The event after which the peak holds; of a phase that begins with it the last one before.
std::optional<size_t> moment_of(const MemoryTimeline& timeline, const MemoryUse& use) {
  if (use.peak_event) return use.peak_event;
  const auto begin = std::ranges::lower_bound(timeline.events, use.timeline_phase, {}, &MemoryEvent::phase);
  if (begin == timeline.events.begin()) return std::nullopt;
  return static_cast<size_t>(begin - timeline.events.begin()) - 1;
}

}  // namespace

std::vector<ModuleMemory> modules_at_peak(const EstimateRun& run, const MemoryUse& use) {
  const std::optional<size_t> moment = moment_of(run.timeline, use);
  if (!moment) return {};
  std::map<std::pair<std::string, Category>, ModuleMemory> all;
  for (const LiveStorage& live : live_at(run.timeline, *moment)) {
    const Storage& storage = run.program.storage(live.storage);
    if (storage.tier != Tier::kGpu) continue;
    const Op& op = run.program.op(live.born_op);
    const std::string module = folded_module(run.program.module_name(op.module));
    const Category category = run.shown[live.born_event];
    ModuleMemory& memory = all[{module, category}];
    memory.module = module;
    memory.category = category;
    memory.bytes += round_to_block(storage.bytes);
    ++memory.storages;
  }
  std::vector<ModuleMemory> sorted;
  for (auto& [key, memory] : all) sorted.push_back(std::move(memory));
  std::ranges::stable_sort(sorted, std::greater(), &ModuleMemory::bytes);
  return sorted;
}

}  // namespace plimsoll
