#include "report/estimate_json.h"

#include <nlohmann/json.hpp>

#include "report/peak_modules.h"
#include "strategy/names.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

Json use_json(const MemoryUse& use) {
  Json json;
  json["live_bytes"] = use.live.value;
  json["allocated_bytes"] = use.allocated.value;
  json["active_bytes"] = use.active.value;
  json["reserved_bytes"] = use.reserved.value;
  json["device_bytes"] = use.device.value;
  json["host_bytes"] = use.host.value;
  json["host_pinned_bytes"] = use.host_pinned.value;
  json["host_pageable_bytes"] = use.host_pageable.value;
  json["disk_bytes"] = use.disk.value;
  json["peak_op"] = use.peak_op.empty() ? Json() : Json(use.peak_op);
  json["peak_module"] = use.peak_op.empty() ? Json() : Json(use.peak_module);
  Json& categories = json["peak_category_bytes"] = Json::object();
  for (int c = 0; c < kCategoryCount; ++c)
    categories[std::string(name_of(static_cast<Category>(c)))] = use.categories[static_cast<size_t>(c)].value;
  return json;
}

Json modules_json(const EstimateRun& run, const MemoryUse& use) {
  Json modules = Json::array();
  for (const ModuleMemory& memory : modules_at_peak(run, use))
    modules.push_back({{"module", memory.module},
                       {"category", name_of(memory.category)},
                       {"bytes", memory.bytes.value},
                       {"storages", memory.storages}});
  return modules;
}

Json phases_json(const EstimateRun& run) {
  Json phases = Json::object();
  for (const PhaseEstimate& phase : run.estimate.phases) {
    Json json = use_json(phase.use);
    json["peak_modules"] = modules_json(run, phase.use);
    if (phase.forward) json["forward"] = use_json(*phase.forward);
    if (phase.backward) json["backward"] = use_json(*phase.backward);
    if (phase.optimizer) json["optimizer"] = use_json(*phase.optimizer);
    phases[std::string(name_of(phase.kind))] = std::move(json);
  }
  return phases;
}

Json ranks_json(const Estimate& e) {
  Json ranks = Json::array();
  for (const RankEstimate& r : e.ranks)
    ranks.push_back({{"rank", r.rank},
                     {"is_shown", r.rank == e.rank},
                     {"live_bytes", r.live.value},
                     {"allocated_bytes", r.allocated.value},
                     {"reserved_bytes", r.reserved.value},
                     {"device_bytes", r.device.value}});
  return ranks;
}

Json verdict_json(const Estimate& e) {
  Json verdict;
  verdict["gpu"] = name_of(e.verdict.gpu);
  verdict["host"] = name_of(e.verdict.host);
  verdict["reasons"] = e.verdict.reasons;
  verdict["to_fit_bytes"] = e.verdict.to_fit.value;
  verdict["host_to_fit_bytes"] = e.verdict.host_to_fit.value;
  if (const auto& failed = e.verdict.failed) {
    verdict["failed"] = {{"phase", name_of(failed->phase)},
                         {"op", failed->op},
                         {"module", failed->module},
                         {"requested_bytes", failed->details.requested.value},
                         {"allocated_bytes", failed->details.allocated.value},
                         {"reserved_bytes", failed->details.reserved.value}};
  }
  return verdict;
}

Json job_json(const ResolvedJob& job) {
  Json json;
  json["framework"] = name_of(job.framework);
  json["engine"] = name_of(job.engine);
  json["gpus"] = job.mesh.world;
  json["data_parallel_ranks"] = job.mesh.data;
  json["shard_ranks"] = job.mesh.shard;
  json["replica_ranks"] = job.mesh.replicate;
  json["tensor_parallel_ranks"] = job.mesh.tensor;
  json["zero_stage"] = job.engine == DataParallelEngine::kZero ? Json(job.zero.stage) : Json();
  json["offload"] = {{"activations", name_of(job.offload.activations)},
                     {"optimizer", name_of(job.offload.optimizer)},
                     {"parameters", name_of(job.offload.parameters)}};
  json["cpu_offload"] = job.engine == DataParallelEngine::kFsdp2 && job.fsdp2.cpu_offload;
  json["precision"] = name_of(job.precision);
  json["sequence"] = job.batch.sequence;
  json["micro_batch"] = job.batch.micro_batch;
  json["accumulation"] = job.batch.accumulation;
  json["global_batch"] = job.batch.global_batch;
  json["optimizer"] = name_of(job.optimizer);
  json["recompute"] = name_of(job.recompute);
  json["attention"] = name_of(job.attention);
  json["loss"] = name_of(job.loss.kind);
  return json;
}

Json device_json(const Estimate& e) {
  Json device;
  device["gpu"] = e.gpu.name;
  device["usable_bytes"] = e.gpu.usable_memory.value;
  device["context_bytes"] = e.outside.context.bytes.value;
  device["communicator_bytes"] = e.outside.communicator_bytes().value;
  device["allocator_capacity_bytes"] = e.capacity.value;
  device["host_bytes_per_rank"] = e.host_capacity.value;
  return device;
}

Json change_json(const Change& change) {
  return {{"settings", change.settings},
          {"price", change.price},
          {"saved_bytes", change.saved.value},
          {"device_bytes", change.device_peak.value},
          {"unlimited_device_bytes", change.wanted.value},
          {"host_bytes", change.host_peak.value},
          {"gpu", name_of(change.gpu)},
          {"host", name_of(change.host)},
          {"fits", change.worst() == Fit::kFits}};
}

Json improvements_json(const Estimate& e, const Improvements& found) {
  Json json, changes = Json::array();
  json["unlimited_device_bytes"] = e.wanted().value;
  for (const Change& change : found.changes) changes.push_back(change_json(change));
  json["changes"] = std::move(changes);
  json["cure"] = found.cure ? change_json(*found.cure) : Json();
  json["unsupported"] = found.unsupported;
  json["without_effect"] = found.without_effect;
  json["untried"] = found.untried;
  json["is_cure_search_cut"] = found.is_search_cut;
  return json;
}

Json assumed_json(const ResolvedJob& job) {
  Json assumed = Json::array();
  for (const Assumption& a : job.assumed)
    assumed.push_back({{"field", a.field}, {"value", a.value}, {"reason", a.reason}});
  return assumed;
}

}  // namespace

std::string estimate_json(const EstimateRun& run, const Improvements& improvements) {
  const Estimate& e = run.estimate;
  Json json;
  json["schema"] = "plimsoll.estimate/1";
  json["model"] = {{"name", e.model_name},
                   {"family", e.family},
                   {"parameters", e.parameters},
                   {"active_parameters", e.active_parameters}};
  json["device"] = device_json(e);
  json["job"] = job_json(e.job);
  json["verdict"] = verdict_json(e);
  json["phases"] = phases_json(run);
  if (!e.ranks.empty()) json["ranks"] = ranks_json(e);
  json["improvements"] = improvements_json(e, improvements);
  json["assumed"] = assumed_json(e.job);
  json["notes"] = e.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
