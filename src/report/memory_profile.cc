#include "report/memory_profile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "replay/stack_roles.h"
#include "report/snapshot_holders.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// The estimate's categories under the names that a snapshot's stacks can tell apart.
std::string shared_name(std::string_view category) {
  const BlockRole role = role_of_category(category);
  return std::string(role == BlockRole::kUnknown ? category : name_of(role));
}

const Json* peak_phase(const Json& estimate) {
  const Json* peak = nullptr;
  for (const auto& [name, phase] : estimate.at("phases").items())
    if (peak == nullptr ||
        phase.at("allocated_bytes").get<int64_t>() > peak->at("allocated_bytes").get<int64_t>())
      peak = &phase;
  return peak;
}

MemoryProfile read_profile(const std::string& name, const Json& estimate) {
  MemoryProfile profile{.name = name + " (estimate)"};
  const Json* const phase = peak_phase(estimate);
  profile.allocated = Bytes{phase->at("allocated_bytes").get<int64_t>()};
  profile.active = Bytes{phase->at("active_bytes").get<int64_t>()};
  profile.reserved = Bytes{phase->at("reserved_bytes").get<int64_t>()};
  for (const auto& [category, bytes] : phase->at("peak_category_bytes").items())
    profile.categories[shared_name(category)] += Bytes{bytes.get<int64_t>()};
  profile.notes.push_back(
      "an estimate's categories are of its peak of live memory; its temporaries are counted to the backward");
  return profile;
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

bool sniff_estimate_json(std::string_view first_bytes) {
  return first_bytes.find("plimsoll.estimate/1") != std::string_view::npos;
}

Result<MemoryProfile> profile_of_estimate(const std::string& name, std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("schema") == "plimsoll.estimate/1" && !json.at("phases").empty())
      return read_profile(name, json);
  } catch (const Json::exception& e) {
    return fail({.position = {.file = name},
                 .message = fmt::format("is no estimate: {}", e.what()),
                 .expected = "what `plimsoll estimate ... --json` prints"});
  }
  return fail({.position = {.file = name},
               .message = "is no estimate",
               .expected = "what `plimsoll estimate ... --json` prints (schema plimsoll.estimate/1)"});
}

}  // namespace plimsoll
