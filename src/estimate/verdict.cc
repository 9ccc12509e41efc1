#include "estimate/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimate/phases.h"

namespace plimsoll {
namespace {

std::string where(const FailedRequest& failed) {
  std::string text(shown_name_of(failed.phase));
  if (failed.timeline_phase != text) text += fmt::format(" ({})", failed.timeline_phase);
  text += fmt::format(", at {}", failed.op);
  if (!failed.module.empty()) text += fmt::format(" of {}", failed.module);
  return text;
}

void judge_failure(const Machine& machine, const Demand& demand, Verdict& verdict) {
  const FailedRequest& failed = *verdict.failed;
  verdict.gpu = Fit::kOutOfMemory;
  verdict.reasons.push_back(fmt::format(
      "out of memory in {}: a request of {} fails with {} allocated and {} reserved of the {} that "
      "the allocator may take",
      where(failed), to_text(failed.details.requested), to_gib_text(failed.details.allocated),
      to_gib_text(failed.details.reserved), to_gib_text(machine.allocator_limit)));
  if (demand.minimum <= machine.allocator_limit)
    verdict.reasons.push_back(
        fmt::format("fragmentation decides: {} are alive at once at most, the rest lies free between them in "
                    "pieces that are "
                    "too small; {}",
                    to_gib_text(demand.minimum),
                    demand.has_expandable_segments
                        ? "segments are expandable already, so only less memory helps"
                        : "allocator.configuration=expandable_segments:True is made against that"));
}

std::string margin_text(const Machine& machine) {
  std::string text =
      fmt::format("{:.0f} % of the GPU for what isn't modelled (other processes, kernels tuned at run time)",
                  100 * kUnmodelledShare);
  if (machine.estimated_outside.value > 0)
    text += fmt::format(" and {} for context and communicators, whose sizes are estimates",
                        to_gib_text(machine.estimated_outside));
  return text;
}

// What would break a job that runs, and how much less would make it fit.
void judge_risks(const Machine& machine, const Demand& demand, Verdict& verdict) {
  const Bytes headroom = machine.usable - demand.device;
  const Bytes margin = machine.margin();
  if (verdict.alloc_retries > 0)
    verdict.reasons.push_back(fmt::format(
        "fragmentation: the allocator has to give cached segments back {} time{} to go on, which "
        "stalls the GPU; without a limit the job would take {}",
        verdict.alloc_retries, verdict.alloc_retries == 1 ? "" : "s", to_gib_text(demand.wanted)));
  else if (headroom < margin)
    verdict.reasons.push_back(fmt::format("margin: {} to spare is less than {}: {}", to_gib_text(headroom),
                                          to_gib_text(margin), margin_text(machine)));
  else
    return;
  verdict.gpu = Fit::kAtRisk;
  verdict.to_fit = std::max(Bytes{0}, demand.wanted - (machine.usable - margin));
}

void judge_host(const Machine& machine, const Demand& demand, Verdict& verdict) {
  const Bytes good{
      static_cast<int64_t>((1 - kSystemShare) * static_cast<double>(machine.host_of_rank.value))};
  if (demand.host <= good) return;
  const std::string text =
      fmt::format("{} of host memory for each of {} ranks, of {} that the node has", to_gib_text(demand.host),
                  machine.ranks_per_node, to_gib_text(machine.host_of_node));
  const bool is_oom = demand.host > machine.host_of_rank;
  verdict.host = is_oom ? Fit::kOutOfMemory : Fit::kAtRisk;
  verdict.host_to_fit = demand.host - good;
  verdict.reasons.push_back(is_oom ? "host out of memory: " + text
                                   : fmt::format("host at risk: {}; {:.0f} % of it are left to the system",
                                                 text, 100 * kSystemShare));
}

// Where no drive is on record nobody can say.
void judge_disk(const Machine& machine, const Demand& demand, Verdict& verdict) {
  const Bytes all = demand.disk * machine.ranks_per_node;
  if (!machine.disks_of_node || all <= *machine.disks_of_node) return;
  verdict.host = Fit::kOutOfMemory;
  verdict.reasons.push_back(
      fmt::format("disk full: {} in files for each of {} ranks, of {} that the node's drives hold",
                  to_gib_text(demand.disk), machine.ranks_per_node, to_gib_text(*machine.disks_of_node)));
}

}  // namespace

Bytes Machine::margin() const {
  const double unmodelled = kUnmodelledShare * static_cast<double>(usable.value);
  return estimated_outside + Bytes{static_cast<int64_t>(unmodelled)};
}

Machine machine_of(const EstimateRequest& request, const ResolvedJob& job, const DeviceParts& outside,
                   std::optional<double> memory_fraction) {
  const Bytes total = request.gpu.usable_memory;
  const Bytes available = std::max(Bytes{0}, total - outside.total());
  const double allowed = memory_fraction.value_or(1) * static_cast<double>(total.value);
  const Bytes limit = std::min(available, Bytes{static_cast<int64_t>(allowed)});
  const int64_t ranks = std::max<int64_t>(1, job.mesh.gpus_per_node);
  return {.usable = std::min(total, limit + outside.total()),
          .available = available,
          .allocator_limit = limit,
          .estimated_outside = outside.estimated(),
          .host_of_rank = request.node.host_memory / ranks,
          .host_of_node = request.node.host_memory,
          .ranks_per_node = ranks,
          .disks_of_node = request.node.disks ? std::optional(request.node.disks->capacity) : std::nullopt};
}

FailedRequest failed_request(const Program& program, const MemoryTimeline& limited) {
  const OomEvent& oom = *limited.oom;
  const Op& op = program.op(oom.op);
  const std::string& phase = limited.phases[oom.phase].phase;
  ModuleId module = op.module;
  if (module == ModuleId{} && oom.storage) module = program.storage(*oom.storage).owner;
  return {.phase = phase_kind_of(phase),
          .timeline_phase = phase,
          .op = std::string(aten_name_of(op.kind)),
          .module = program.module_name(module),
          .details = oom.details};
}

Verdict judge(const Machine& machine, const Demand& demand, std::optional<FailedRequest> failed) {
  Verdict verdict{.failed = std::move(failed), .alloc_retries = demand.alloc_retries};
  if (verdict.failed)
    judge_failure(machine, demand, verdict);
  else
    judge_risks(machine, demand, verdict);
  judge_host(machine, demand, verdict);
  judge_disk(machine, demand, verdict);
  return verdict;
}

}  // namespace plimsoll
