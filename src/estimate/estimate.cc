#include "estimate/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/allocator_settings.h"
#include "allocator/caching_heap.h"
#include "estimate/host_use.h"
#include "estimate/phases.h"
#include "estimate/verdict.h"
#include "frameworks/build_training.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

// All that is known of a job before its program.
struct Prepared {
  ResolvedJob job;
  AllocatorSettings settings;
  DeviceParts outside;
  Machine machine;
};

GpuFacts facts_of(const EstimateRequest& request) {
  return {.name = request.gpu.name,
          .gpus_per_node = request.node.gpus,
          .compute_capability = compute_capability_of(request.gpu.architecture),
          .multiprocessors = request.gpu.multiprocessors};
}

Result<Prepared> prepare(const EstimateRequest& request) {
  const Gpu& gpu = request.gpu;
  PLIMSOLL_TRY(job, resolve(request.job, request.architecture, facts_of(request)));
  PLIMSOLL_TRY(settings, parse_allocator_settings(job.allocator.configuration, "allocator.configuration"));
  PLIMSOLL_CHECK(check_framework_supports(request.architecture, job));
  Prepared prepared{.job = std::move(job), .settings = std::move(settings)};
  prepared.outside = device_parts(gpu, prepared.job);
  prepared.machine =
      machine_of(request, prepared.job, prepared.outside, prepared.settings.per_process_memory_fraction);
  return prepared;
}

MemoryTimeline play(const Prepared& p, const Program& program, const Gpu& gpu, SimulatedDevice device,
                    bool keeps_events) {
  CachingHeap heap({.settings = p.settings, .device = &device});
  return simulate(program, heap,
                  {.keeps_events = keeps_events,
                   .library_workspace = library_workspace(gpu, p.job),
                   .settings = p.settings});
}

// The run within the GPU's memory; and without limit, where the limit made a difference.
struct Played {
  MemoryTimeline limited;
  std::optional<MemoryTimeline> unlimited;

  // Of a job that runs out of memory: as if the device had no limit.
  MemoryTimeline& shown() { return limited.oom ? *unlimited : limited; }
  const MemoryTimeline& shown() const { return limited.oom ? *unlimited : limited; }
  const MemoryTimeline& without_limit() const { return unlimited ? *unlimited : limited; }
};

// On a device without limit, of which there is no fraction either. Errors: a request that no allocator
// serves.
Result<MemoryTimeline> play_unlimited(const Prepared& p, const Program& program, const Gpu& gpu,
                                      bool keeps_events) {
  MemoryTimeline timeline = play(p, program, gpu, SimulatedDevice(), keeps_events);
  if (!timeline.oom) return timeline;
  const OomEvent& oom = *timeline.oom;
  return fail({.message = fmt::format("in {}, {} asks for {}, with {} reserved before",
                                      timeline.phases[oom.phase].phase, aten_name_of(program.op(oom.op).kind),
                                      to_text(oom.details.requested), to_gib_text(oom.details.reserved)),
               .expected = "sizes that PyTorch's allocator can address, on a device of any size"});
}

Result<Played> play_both(const Prepared& p, const Program& program, const Gpu& gpu, bool keeps_events) {
  const SimulatedDevice device(p.machine.available, gpu.usable_memory);
  Played played{.limited = play(p, program, gpu, device, keeps_events)};
  const bool has_retries =
      std::ranges::any_of(played.limited.phases, [](const auto& phase) { return phase.alloc_retries > 0; });
  if (!played.limited.oom && !has_retries) return played;
  PLIMSOLL_TRY(unlimited, play_unlimited(p, program, gpu, keeps_events));
  played.unlimited = std::move(unlimited);
  return played;
}

Bytes reserved_peak(const MemoryTimeline& timeline) {
  Bytes peak;
  for (const PhaseMemory& phase : timeline.phases) peak = std::max(peak, phase.reserved_peak);
  return peak;
}

Bytes host_peak(const Prepared& p, const Program& program, const MemoryTimeline& timeline) {
  Bytes peak;
  for (const PhaseMemory& phase : timeline.phases) peak = std::max(peak, phase.host_peak);
  if (p.job.loop.has_save && !timeline.phases.empty())
    peak = std::max(peak, timeline.phases.back().host_end + save_staging(program, timeline, p.job).bytes);
  return peak + kProcessBaseline;
}

Bytes disk_peak(const MemoryTimeline& timeline) {
  Bytes peak;
  for (const PhaseMemory& phase : timeline.phases) peak = std::max(peak, phase.disk_peak);
  return peak;
}

Demand demand_of(const Prepared& p, const Program& program, const Played& played) {
  const MemoryTimeline& shown = played.shown();
  Demand demand{.device = reserved_peak(shown) + p.outside.total(),
                .wanted = reserved_peak(played.without_limit()) + p.outside.total(),
                .host = host_peak(p, program, shown),
                .disk = disk_peak(shown),
                .has_expandable_segments = p.settings.expandable_segments};
  for (const PhaseMemory& phase : shown.phases)
    demand.minimum =
        std::max(demand.minimum, std::max(phase.live_peak, phase.workspace_peak) + phase.library_workspace);
  for (const PhaseMemory& phase : played.limited.phases) demand.alloc_retries += phase.alloc_retries;
  return demand;
}

Verdict verdict_of(const Prepared& p, const Program& program, const Played& played, const Demand& demand) {
  std::optional<FailedRequest> failed;
  if (played.limited.oom) failed = failed_request(program, played.limited);
  return judge(p.machine, demand, std::move(failed));
}

// What the host's verdict rests on.
std::string host_note(const Node& node) {
  return fmt::format(
      "host memory: {} in a node of {}{}, {:.0f} % of it left to the system; counted are {} for "
      "the process (an estimate), offloaded tensors and the checkpoint being written; not reading "
      "the weights, data loading, page cache",
      to_gib_text(node.host_memory), node.cluster,
      node.is_assumed ? " is assumed (--cluster takes another or a file)" : "", 100 * kSystemShare,
      to_gib_text(kProcessBaseline));
}

void add_notes(const Architecture& a, const Prepared& p, const Program& program, Estimate& e) {
  const auto append = [&](const std::vector<std::string>& notes) {
    e.notes.insert(e.notes.end(), notes.begin(), notes.end());
  };
  append(a.notes);
  append(p.job.notes);
  append(program.notes);
  const auto part = [&](const DevicePart& d) {
    if (d.is_estimate)
      e.notes.push_back(fmt::format("{}, {}, is an estimate: {}", d.name, to_gib_text(d.bytes), d.source));
  };
  part(p.outside.context);
  for (const DevicePart& communicator : p.outside.communicators) part(communicator);
  e.notes.push_back(host_note(e.node));
  if (p.job.offload.optimizer == OffloadTarget::kDisk && !p.machine.disks_of_node)
    e.notes.emplace_back("the node's file names no drives: whether the disk tier's files fit isn't known");
  if (p.settings.per_process_memory_fraction)
    e.notes.push_back(fmt::format("per_process_memory_fraction leaves the allocator {} of the GPU's {}",
                                  to_gib_text(p.machine.allocator_limit), to_gib_text(e.gpu.usable_memory)));
  for (const std::string& setting : p.settings.without_effect)
    e.notes.push_back(fmt::format("allocator setting {} has no effect on bytes", setting));
}

Estimate describe(const EstimateRequest& request, const Prepared& p, const Program& program) {
  const Architecture& a = request.architecture;
  Estimate e{.model_name = a.name,
             .family = a.family,
             .class_name = a.class_name,
             .task = a.task,
             .parameters = a.parameter_count(),
             .active_parameters = a.active_parameter_count(),
             .gpu = request.gpu,
             .node = request.node,
             .job = p.job,
             .outside = p.outside,
             .capacity = p.machine.allocator_limit,
             .host_capacity = p.machine.host_of_rank};
  add_notes(a, p, program, e);
  return e;
}

void add_save_phase(const Prepared& p, EstimateRun& run) {
  const SaveStaging staging = save_staging(run.program, run.timeline, p.job);
  run.estimate.phases.push_back(
      save_phase(run.program, run.timeline, run.shown, run.estimate.outside, staging.bytes));
  run.estimate.notes.push_back(staging.note);
}

}  // namespace

std::string_view name_of(PhaseKind phase) {
  static constexpr std::string_view kNames[] = {"load", "first_step", "steady_step", "evaluation", "save"};
  return kNames[static_cast<size_t>(phase)];
}
std::string_view shown_name_of(PhaseKind phase) {
  static constexpr std::string_view kNames[] = {"load", "first step", "steady step", "evaluation", "save"};
  return kNames[static_cast<size_t>(phase)];
}
std::string_view name_of(Fit fit) {
  static constexpr std::string_view kNames[] = {"fits", "at-risk", "oom"};
  return kNames[static_cast<size_t>(fit)];
}

const PhaseEstimate& Estimate::peak_phase() const {
  return *std::ranges::max_element(phases, {}, [](const PhaseEstimate& p) { return p.use.device; });
}

namespace {

Result<EstimateRun> run_rank(const EstimateRequest& request, const Prepared& prepared, int64_t rank) {
  PLIMSOLL_TRY(program, build_training_program(request.architecture, prepared.job, rank));
  EstimateRun run{.estimate = describe(request, prepared, program)};
  run.program = std::move(program);
  Estimate& e = run.estimate;
  e.rank = rank;
  PLIMSOLL_TRY(played, play_both(prepared, run.program, request.gpu, true));
  e.reserved_without_limit = reserved_peak(played.without_limit());
  const Demand demand = demand_of(prepared, run.program, played);
  e.host_peak = demand.host;
  e.verdict = verdict_of(prepared, run.program, played, demand);
  if (!played.limited.oom) run.available = prepared.machine.available;
  run.timeline = std::move(played.shown());
  run.shown = shown_categories(run.program, run.timeline);
  e.phases = phases_of(run.program, run.timeline, run.shown, e.outside);
  if (prepared.job.loop.has_save) add_save_phase(prepared, run);
  return run;
}

RankEstimate summary_of(const EstimateRun& run) {
  RankEstimate out{.rank = run.estimate.rank, .device = run.estimate.device_peak()};
  for (const PhaseMemory& phase : run.timeline.phases) {
    out.live = std::max(out.live, phase.live_peak);
    out.allocated = std::max(out.allocated, phase.allocated_peak);
    out.reserved = std::max(out.reserved, phase.reserved_peak);
  }
  return out;
}

}  // namespace

Result<EstimateRun> run_estimate(const EstimateRequest& request) {
  PLIMSOLL_TRY(prepared, prepare(request));
  const int64_t count = distinct_ranks(prepared.job);
  if (request.rank || count == 1) return run_rank(request, prepared, request.rank.value_or(0));
  std::vector<RankEstimate> ranks;
  PLIMSOLL_TRY(worst, run_rank(request, prepared, 0));
  ranks.push_back(summary_of(worst));
  for (int64_t rank = 1; rank < count; ++rank) {
    PLIMSOLL_TRY(run, run_rank(request, prepared, rank));
    ranks.push_back(summary_of(run));
    if (run.estimate.device_peak() > worst.estimate.device_peak()) worst = std::move(run);
  }
  worst.estimate.ranks = std::move(ranks);
  return worst;
}

Result<QuickAnswer> quick_estimate(const EstimateRequest& request, const Program& program) {
  PLIMSOLL_TRY(prepared, prepare(request));
  PLIMSOLL_TRY(played, play_both(prepared, program, request.gpu, false));
  const Demand demand = demand_of(prepared, program, played);
  const Verdict verdict = verdict_of(prepared, program, played, demand);
  return QuickAnswer{.device_peak = demand.device,
                     .wanted = demand.wanted,
                     .host_peak = demand.host,
                     .gpu = verdict.gpu,
                     .host = verdict.host};
}

Result<QuickAnswer> quick_estimate(const EstimateRequest& request) {
  PLIMSOLL_TRY(prepared, prepare(request));
  PLIMSOLL_TRY(program, build_training_program(request.architecture, prepared.job));
  return quick_estimate(request, program);
}

Result<void> check_estimable(const EstimateRequest& request) {
  PLIMSOLL_CHECK(prepare(request));
  return {};
}

std::vector<std::string> resets_of_unused(const EstimateRequest& request) {
  return resets_of_unused(request.job, request.architecture, facts_of(request));
}

}  // namespace plimsoll
