#include "estimate/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimate/phases.h"

namespace plimsoll {
namespace {

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

std::string where(const FailedRequest& failed) {
  std::string text =
      fmt::format("{} ({}), at {}", shown_name_of(failed.phase), failed.timeline_phase, failed.op);
  if (!failed.module.empty()) text += fmt::format(" of {}", failed.module);
  return text;
}

// No allocator could do with less.
Bytes needs_at_least(const Estimate& e) {
  Bytes most;
  for (const PhaseEstimate& phase : e.phases)
    most = std::max(most, phase.use.live + phase.use.categories[static_cast<size_t>(Category::kWorkspace)]);
  return most;
}

void judge_failure(const Estimate& e, Verdict& verdict) {
  const FailedRequest& failed = *verdict.failed;
  verdict.gpu = Fit::kOutOfMemory;
  verdict.reasons.push_back(fmt::format(
      "out of memory in {}: a request of {} fails with {} allocated and {} reserved of the {} that "
      "the allocator may take",
      where(failed), to_text(failed.details.requested), to_gib_text(failed.details.allocated),
      to_gib_text(failed.details.reserved), to_gib_text(e.capacity)));
  if (needs_at_least(e) <= e.capacity)
    verdict.reasons.push_back(
        fmt::format("fragmentation decides: without it {} would do, so another order of sizes might run",
                    to_gib_text(needs_at_least(e))));
}

// What would break a job that runs.
void judge_risks(const Estimate& e, Verdict& verdict) {
  const MemoryUse& peak = e.peak_phase().use;
  const Bytes headroom = e.gpu.usable_memory - peak.device;
  const auto risk = [&](std::string text) {
    verdict.gpu = Fit::kAtRisk;
    verdict.reasons.push_back(std::move(text));
  };
  if (verdict.alloc_retries > 0)
    return risk(fmt::format(
        "fragmentation: the allocator has to give cached segments back {} time{} to go on, which stalls "
        "the GPU; without a limit it would reserve {}",
        verdict.alloc_retries, verdict.alloc_retries == 1 ? "" : "s", to_gib_text(e.reserved_without_limit)));
  const Bytes slack = peak.reserved - peak.live;
  if (headroom < slack)
    risk(fmt::format(
        "fragmentation: {} of headroom is less than the {} by which the allocator's reserved memory "
        "exceeds what is live",
        to_gib_text(headroom), to_gib_text(slack)));
  if (headroom < e.outside.estimated())
    risk(fmt::format(
        "estimates: {} of headroom is less than the {} of context and communicators that nobody has "
        "measured for this job",
        to_gib_text(headroom), to_gib_text(e.outside.estimated())));
}

constexpr double kHostMargin = 0.9;  // the operating system and the page cache want some

void judge_host(const Estimate& e, Verdict& verdict) {
  Bytes peak;
  for (const PhaseEstimate& phase : e.phases) peak = std::max(peak, phase.use.host);
  const std::string text =
      fmt::format("{} of host memory for each of {} ranks, of {} that the node has", to_gib_text(peak),
                  e.job.mesh.gpus_per_node, to_gib_text(e.node.host_memory));
  if (peak > e.host_capacity) {
    verdict.host = Fit::kOutOfMemory;
    verdict.reasons.push_back("host out of memory: " + text);
  } else if (static_cast<double>(peak.value) > kHostMargin * static_cast<double>(e.host_capacity.value)) {
    verdict.host = Fit::kAtRisk;
    verdict.reasons.push_back("host at risk: " + text);
  }
}

}  // namespace

Verdict judge(const Estimate& estimate, const Program& program, const MemoryTimeline& limited) {
  Verdict verdict;
  for (const PhaseMemory& phase : limited.phases) verdict.alloc_retries += phase.alloc_retries;
  if (limited.oom) {
    verdict.failed = failed_request(program, limited);
    judge_failure(estimate, verdict);
  } else {
    judge_risks(estimate, verdict);
  }
  judge_host(estimate, verdict);
  return verdict;
}

}  // namespace plimsoll
