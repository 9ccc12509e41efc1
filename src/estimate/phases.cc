#include "estimate/phases.h"

#include <algorithm>

#include "base/block.h"
#include "estimate/host_use.h"

namespace plimsoll {
namespace {

// The op's module, or that of the storage which it allocated.
std::string peak_module(const Program& program, const MemoryTimeline& timeline, const PhaseMemory& phase) {
  ModuleId module = program.op(*phase.peak_op).module;
  if (module == ModuleId{} && phase.peak_event)
    module = program.storage(timeline.events[*phase.peak_event].storage).owner;
  return program.module_name(module);
}

MemoryUse use_of(const Program& program, const MemoryTimeline& timeline, uint32_t index,
                 const CategoryBytes& categories, const DeviceParts& outside) {
  const PhaseMemory& phase = timeline.phases[index];
  MemoryUse use{.live = phase.live_peak,
                .allocated = phase.allocated_peak,
                .active = phase.active_peak,
                .reserved = phase.reserved_peak,
                .device = phase.reserved_peak + outside.total(),
                .host = phase.host_peak + kProcessBaseline,
                .host_pinned = phase.pinned_peak,
                .host_pageable = phase.pageable_peak,
                .disk = phase.disk_peak,
                .categories = categories,
                .timeline_phase = index,
                .peak_event = phase.peak_event};
  use.categories[static_cast<size_t>(Category::kWorkspace)] +=
      phase.library_workspace + (phase.workspace_peak - phase.live_peak);
  if (phase.peak_op) {
    use.peak_op = aten_name_of(program.op(*phase.peak_op).kind);
    use.peak_module = peak_module(program, timeline, phase);
  }
  return use;
}

// The higher of each; what is said of the live peak comes from the one with the higher live peak.
void add(MemoryUse& sum, const MemoryUse& part) {
  const MemoryUse before = sum;
  if (part.live > sum.live) sum = part;
  sum.allocated = std::max(before.allocated, part.allocated);
  sum.active = std::max(before.active, part.active);
  sum.reserved = std::max(before.reserved, part.reserved);
  sum.device = std::max(before.device, part.device);
  sum.host = std::max(before.host, part.host);
  sum.host_pinned = std::max(before.host_pinned, part.host_pinned);
  sum.host_pageable = std::max(before.host_pageable, part.host_pageable);
  sum.disk = std::max(before.disk, part.disk);
}
void add(std::optional<MemoryUse>& sum, const MemoryUse& part) {
  if (sum)
    add(*sum, part);
  else
    sum = part;
}

void add_to_part(PhaseEstimate& phase, std::string_view timeline_phase, const MemoryUse& use) {
  if (timeline_phase.starts_with("fwd")) add(phase.forward, use);
  if (timeline_phase.starts_with("bwd")) add(phase.backward, use);
  if (timeline_phase.starts_with("step") || timeline_phase.starts_with("zero")) add(phase.optimizer, use);
}

}  // namespace

PhaseKind phase_kind_of(std::string_view timeline_phase) {
  if (timeline_phase == "load") return PhaseKind::kLoad;
  if (timeline_phase == "eval") return PhaseKind::kEvaluation;
  if (timeline_phase == "save") return PhaseKind::kSave;
  const size_t digit = timeline_phase.find_first_of("0123456789");
  const bool is_first = digit != std::string_view::npos && timeline_phase[digit] == '1' &&
                        (digit + 1 == timeline_phase.size() || timeline_phase[digit + 1] == '.');
  return is_first ? PhaseKind::kFirstStep : PhaseKind::kSteadyStep;
}

std::vector<PhaseEstimate> phases_of(const Program& program, const MemoryTimeline& timeline,
                                     const std::vector<Category>& shown, const DeviceParts& outside) {
  const std::vector<CategoryBytes> categories = categories_at_peaks(program, timeline, shown);
  std::vector<PhaseEstimate> phases;
  for (uint32_t i = 0; i < timeline.phases.size(); ++i) {
    const PhaseMemory& memory = timeline.phases[i];
    const MemoryUse use = use_of(program, timeline, i, categories[i], outside);
    const PhaseKind kind = phase_kind_of(memory.phase);
    if (phases.empty() || phases.back().kind != kind)
      phases.push_back({.kind = kind, .use = use});
    else
      add(phases.back().use, use);
    add_to_part(phases.back(), memory.phase, use);
  }
  return phases;
}

std::optional<PhaseEstimate> part_named(std::string_view name, const Program& program,
                                        const MemoryTimeline& timeline, const std::vector<Category>& shown,
                                        const DeviceParts& outside) {
  const auto found = std::ranges::find(timeline.phases, name, &PhaseMemory::phase);
  if (found == timeline.phases.end()) return std::nullopt;
  const auto index = static_cast<uint32_t>(found - timeline.phases.begin());
  const std::vector<CategoryBytes> categories = categories_at_peaks(program, timeline, shown);
  return PhaseEstimate{.kind = phase_kind_of(name),
                       .use = use_of(program, timeline, index, categories[index], outside),
                       .part = std::string(name)};
}

PhaseEstimate save_phase(const Program& program, const MemoryTimeline& timeline,
                         const std::vector<Category>& shown, const DeviceParts& outside, Bytes staging) {
  const PhaseMemory& last = timeline.phases.back();
  PhaseEstimate save{.kind = PhaseKind::kSave,
                     .use = {.live = last.live_end,
                             .allocated = last.allocated_end,
                             .active = last.active_end,
                             .reserved = last.reserved_end,
                             .device = last.reserved_end + outside.total(),
                             .host = last.host_end + kProcessBaseline + staging,
                             .host_pinned = last.pinned_end,
                             .host_pageable = last.pageable_end,
                             .disk = last.disk_end,
                             .timeline_phase = static_cast<uint32_t>(timeline.phases.size() - 1)}};
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const Storage& storage = program.storage(timeline.events[i].storage);
    if (storage.tier != Tier::kGpu) continue;
    const Bytes bytes = round_to_block(storage.bytes);
    save.use.categories[static_cast<size_t>(shown[i])] +=
        timeline.events[i].is_alloc ? bytes : Bytes{0} - bytes;
  }
  save.use.categories[static_cast<size_t>(Category::kWorkspace)] += last.library_workspace;
  if (!timeline.events.empty()) save.use.peak_event = timeline.events.size() - 1;
  return save;
}

}  // namespace plimsoll
