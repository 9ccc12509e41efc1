#include "report/memory_profile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "replay/stack_roles.h"
#include "report/snapshot_holders.h"

namespace plimsoll {
namespace {

// The estimate's categories under the names that a snapshot's stacks can tell apart.
std::string shared_name(std::string_view category) {
  const BlockRole role = role_of_category(category);
  return std::string(role == BlockRole::kUnknown ? category : name_of(role));
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
  profile.notes.push_back(
      "an estimate's categories are of its peak of live memory; its temporaries are counted to the backward");
  return profile;
}

}  // namespace plimsoll
