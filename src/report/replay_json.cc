#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "replay/annotated_blocks.h"
#include "report/replay_findings.h"
#include "report/replay_page.h"
#include "report/snapshot_holders.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

Json event_json(const std::optional<size_t>& event) { return event ? Json(*event) : Json(); }

Json holders_json(const DeviceReplay& d) {
  Json all = Json::array();
  for (const CodeLineHolders& line : holders_of(*d.trace, d.analysis.at_peak).lines)
    all.push_back({{"where", line.where},
                   {"role", name_of(line.role)},
                   {"op", line.op},
                   {"other_ops", line.other_ops},
                   {"blocks", line.count},
                   {"bytes", line.total.value},
                   {"largest_bytes", line.largest.value}});
  return all;
}

Json named_json(const std::vector<NamedBlocks>& groups) {
  Json all = Json::array();
  for (const NamedBlocks& group : groups)
    all.push_back({{"name", group.name.empty() ? Json() : Json(group.name)},
                   {"blocks", group.count},
                   {"bytes", group.total.value}});
  return all;
}

Json frame_json(const AllocationTrace& trace, const std::optional<FrameId>& frame) {
  return frame ? Json(frame_text(trace.stacks.frame(*frame))) : Json();
}

Json failures_json(const DeviceReplay& d) {
  Json all = Json::array();
  for (const RecordedOutOfMemory& failure : d.analysis.out_of_memory)
    all.push_back({{"event", failure.event},
                   {"where", frame_json(*d.trace, failure.frame)},
                   {"requested_bytes", failure.requested.value},
                   {"allocated_bytes", failure.allocated.value},
                   {"reserved_bytes", failure.reserved.value},
                   {"device_free_bytes", failure.device_free.value}});
  return all;
}

Json held_json(const DeviceReplay& d) {
  const HeldBlocks& held = d.analysis.held;
  Json lines = Json::array();
  for (const HeldLine& line : held.lines)
    lines.push_back({{"where", frame_json(*d.trace, line.frame)},
                     {"called_at", frame_json(*d.trace, line.call_frame)},
                     {"what", name_of(line.kind)},
                     {"freed", name_of(line.until)},
                     {"blocks", line.blocks},
                     {"steps", line.steps},
                     {"bytes", line.most.value},
                     {"peak_bytes", line.at_peak.value}});
  return {{"backwards", held.backwards}, {"peak_bytes", held.at_peak.value}, {"lines", std::move(lines)}};
}

Json count_json(const std::optional<int64_t>& count) { return count ? Json(*count) : Json(); }

Json steps_json(const StepPhases& phases) {
  Json told_by;
  if (phases.told_by == PhasesToldBy::kRecording) told_by = phases.forwards ? "stacks" : "annotations";
  if (phases.told_by == PhasesToldBy::kSimulation) told_by = "simulation";
  return {{"told_by", told_by},
          {"forwards", count_json(phases.forwards)},
          {"backwards", count_json(phases.backwards)},
          {"optimizer_steps", count_json(phases.optimizer_steps)}};
}

Json divergence_json(const Divergence& d) {
  return {{"event", d.event},
          {"recorded_address", d.recorded},
          {"replayed_address", d.replayed},
          {"reason", d.reason}};
}

Json replay_part(const ReplayResult& r) {
  Json divergences = Json::array(), stats = Json::object();
  for (const Divergence& d : r.divergences) divergences.push_back(divergence_json(d));
  for (const auto& [name, value] : memory_stat_entries(r.memory_stats)) stats[name] = value;
  return {{"allocations", r.allocations},
          {"same_address", r.same_address},
          {"segments", r.segments},
          {"same_segments", r.same_segments},
          {"extra_segments", r.extra_segments},
          {"unknown_frees", r.unknown_frees},
          {"explained", r.explained},
          {"first_divergence", r.first_divergence ? divergence_json(*r.first_divergence) : Json()},
          {"divergences", std::move(divergences)},
          {"memory_stats", std::move(stats)}};
}

Json given_back_json(const GiveBacks& given_back) {
  Json runs = Json::array(), limit;
  for (const GiveBack& g : given_back.all)
    runs.push_back({{"event", g.first},
                    {"reason", name_of(g.reason)},
                    {"certain", g.is_certain},
                    {"segments", g.segments},
                    {"bytes", g.bytes.value},
                    {"reserved_before_bytes", g.reserved.value},
                    {"wanted_bytes", g.wanted ? Json(g.wanted->value) : Json()}});
  if (given_back.limit) {
    const DeviceLimit& found = *given_back.limit;
    limit = {{"at_least_bytes", found.at_least.value},
             {"below_bytes", found.below ? Json(found.below->value) : Json()}};
  }
  return {{"runs", std::move(runs)}, {"device_limit", std::move(limit)}};
}

Json refused_json(const DeviceReplay& d, const WhatIf& w) {
  if (!w.out_of_memory) return {};
  const OutOfMemory& refused = *w.out_of_memory;
  return {{"event", event_json(w.out_of_memory_at)},
          {"where", frame_json(*d.trace, w.out_of_memory_frame)},
          {"requested_bytes", refused.requested.value},
          {"allocated_bytes", refused.allocated.value},
          {"reserved_bytes", refused.reserved.value},
          {"device_free_bytes", refused.device_free ? Json(refused.device_free->value) : Json()}};
}

Json what_if_part(const DeviceReplay& d) {
  Json all = Json::array();
  for (const WhatIf& w : d.analysis.what_if)
    all.push_back({{"as_recorded", w.is_as_recorded},
                   {"suggested", w.is_suggested},
                   {"conf", w.configuration},
                   {"capacity_bytes", w.capacity ? Json(w.capacity->value) : Json()},
                   {"capacity_is_recorded", w.is_capacity_recorded},
                   {"peak_reserved_bytes", w.peak_reserved.value},
                   {"peak_allocated_bytes", w.peak_allocated.value},
                   {"num_alloc_retries", w.retries},
                   {"oom", w.out_of_memory.has_value()},
                   {"oom_event", event_json(w.out_of_memory_at)},
                   {"out_of_memory", refused_json(d, w)},
                   {"served_failures", w.served_failures},
                   {"without_effect", w.without_effect}});
  return all;
}

Json device_json(const DeviceReplay& d, const std::vector<TraceImperfection>& imperfections) {
  const SnapshotAnalysis& a = d.analysis;
  const AnnotatedBlocks named = annotated_blocks(*d.trace, a.at_peak, a.allocated.event);
  Json imperfect = Json::array();
  for (const TraceImperfection& i : imperfections)
    imperfect.push_back({{"what", i.what}, {"count", i.count}});
  return {{"device", d.trace->device},
          {"snapshot",
           {{"segments", a.at_dump.segments},
            {"reserved_bytes", a.at_dump.reserved.value},
            {"allocated_bytes", a.at_dump.allocated.value},
            {"active_bytes", a.at_dump.active.value},
            {"events", a.events},
            {"imperfections", imperfect}}},
          {"out_of_memory", failures_json(d)},
          {"peak",
           {{"allocated_bytes", a.allocated.value.value},
            {"active_bytes", a.active.value.value},
            {"reserved_bytes", a.reserved.value.value},
            {"event", event_json(a.allocated.event)},
            {"active_event", event_json(a.active.event)},
            {"reserved_event", event_json(a.reserved.event)},
            {"allocated_bytes_replayed_backwards", a.allocated_replayed_backwards.value},
            {"holders", holders_json(d)},
            {"by_annotation", named_json(named.annotations)},
            {"by_metadata", named_json(named.metadata)}}},
          {"steps", steps_json(a.steps)},
          {"held_past_use", held_json(d)},
          {"given_back", given_back_json(a.given_back)},
          {"replay", replay_part(a.replay)},
          {"what_if", what_if_part(d)}};
}

}  // namespace

std::string replay_json(const std::string& file, const std::vector<DeviceReplay>& devices,
                        const std::vector<TraceImperfection>& imperfections) {
  Json json = {{"schema", "plimsoll.replay/1"}, {"file", file}};
  if (!devices.empty()) json.update(device_json(devices[0], imperfections));
  Json others = Json::array();
  for (size_t i = 1; i < devices.size(); ++i) others.push_back(device_json(devices[i], {}));
  json["other_devices"] = std::move(others);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
