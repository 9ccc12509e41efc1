#include "report/memory_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/module_path.h"
#include "replay/annotated_blocks.h"
#include "replay/stack_roles.h"
#include "report/snapshot_holders.h"
#include "trace/simulated_stack.h"

namespace plimsoll {
namespace {

// The estimate's categories under the names that a snapshot's stacks can tell apart.
std::string shared_name(std::string_view category) {
  const BlockRole role = role_of_category(category);
  return std::string(role == BlockRole::kUnknown ? category : name_of(role));
}

// Of a simulated block the module of its op. Workspaces are of the library that took them, whichever module
// was the first to call it.
std::optional<std::string_view> simulated_module(const AllocationTrace& trace, const StackMeaning* meaning,
                                                 BlockRole role) {
  if (!meaning || !meaning->is_simulated || !meaning->shown_frame || role == BlockRole::kWorkspace)
    return std::nullopt;
  const std::string_view module = trace.stacks.frame(*meaning->shown_frame).filename;
  return module == kBetweenOps ? std::nullopt : std::optional(module);
}

// By the stacks of a simulated trace: an op in a module.
ModuleKnowledge modules_of_simulation(const AllocationTrace& trace, const std::vector<LiveBlock>& blocks,
                                      const std::vector<BlockRole>& roles) {
  const std::vector<StackMeaning> meanings = meanings_of(trace.stacks);
  ModuleKnowledge modules{.how = "by simulated stacks"};
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string role(name_of(roles[i]));
    const StackMeaning* const meaning = blocks[i].stack ? &meanings[*blocks[i].stack] : nullptr;
    if (const auto module = simulated_module(trace, meaning, roles[i]))
      modules.known[{folded_module(*module), role}] += blocks[i].bytes;
    else
      modules.unknown[role] += blocks[i].bytes;
  }
  return modules;
}

// Names that may be a module's, which only the other side can say.
ModuleKnowledge modules_of_recording(const AllocationTrace& trace, const SnapshotAnalysis& analysis,
                                     const std::vector<BlockRole>& roles) {
  const std::vector<LiveBlock>& blocks = analysis.at_peak;
  const BlockNames all = names_of_blocks(trace, blocks, analysis.allocated.event);
  ModuleKnowledge modules;
  for (size_t i = 0; i < blocks.size(); ++i) {
    ModuleKnowledge::Named named{.role = std::string(name_of(roles[i]))};
    named.is_metadata = !all.metadata[i].empty();
    if (named.is_metadata) named.names.push_back(all.metadata[i]);
    const std::vector<std::string>& path = all.paths[all.path_of[i]];
    named.names.insert(named.names.end(), path.rbegin(), path.rend());
    if (named.names.empty())
      modules.unknown[named.role] += blocks[i].bytes;
    else
      modules.named[std::move(named)] += blocks[i].bytes;
  }
  return modules;
}

}  // namespace

MemoryProfile profile_of(const std::string& name, const AllocationTrace& trace,
                         const SnapshotAnalysis& analysis) {
  MemoryProfile profile{.name = fmt::format("{} (device {})", name, trace.device),
                        .allocated = analysis.allocated.value,
                        .active = analysis.active.value,
                        .reserved = analysis.reserved.value};
  const SnapshotHolders holders = holders_of(trace, analysis.at_peak);
  for (size_t r = 0; r < kNumBlockRoles; ++r)
    if (holders.by_role[r].value > 0)
      profile.categories[std::string(name_of(static_cast<BlockRole>(r)))] = holders.by_role[r];
  for (const CodeLineHolders& line : holders.lines) profile.places[line.where] += line.total;
  profile.modules = holders.is_simulated ? modules_of_simulation(trace, analysis.at_peak, holders.roles)
                                         : modules_of_recording(trace, analysis, holders.roles);
  if (!holders.is_simulated)
    profile.notes.push_back("what a snapshot's blocks are for is a guess: from stacks, sizes and lifetimes");
  return profile;
}

MemoryProfile profile_of_estimate(const std::string& name, const EstimatedMemory& estimate) {
  const EstimatedPhase& phase = *std::ranges::max_element(estimate.phases, {}, &EstimatedPhase::allocated);
  MemoryProfile profile{.name = name + " (estimate)",
                        .allocated = phase.allocated,
                        .active = phase.active,
                        .reserved = phase.reserved};
  for (const auto& [category, bytes] : phase.categories) profile.categories[shared_name(category)] += bytes;
  profile.modules.how = phase.modules.empty() ? "" : "as estimated";
  for (const EstimatedModule& memory : phase.modules)
    profile.modules.known[{memory.module, shared_name(memory.category)}] += memory.bytes;
  if (phase.modules.empty())
    profile.notes.push_back("the estimate is of a version of plimsoll that names no modules");
  profile.notes.push_back(
      "an estimate's categories are of its peak of live memory; its temporaries are counted to the backward");
  return profile;
}

}  // namespace plimsoll
