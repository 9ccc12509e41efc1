#include "estimate/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/allocator_settings.h"
#include "allocator/caching_heap.h"
#include "estimate/host_use.h"
#include "estimate/phases.h"
#include "estimate/verdict.h"
#include "frameworks/pytorch/supported.h"
#include "frameworks/pytorch/training.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

// All that is known of a job before its program.
struct Prepared {
  ResolvedJob job;
  AllocatorSettings settings;
  DeviceParts outside;
  Bytes capacity;
};

Result<Prepared> prepare(const EstimateRequest& request) {
  const Gpu& gpu = request.gpu;
  PLIMSOLL_TRY(job, resolve(request.job, request.architecture,
                            {.name = gpu.name,
                             .gpus_per_node = request.node.gpus,
                             .compute_capability = compute_capability_of(gpu.architecture)}));
  PLIMSOLL_TRY(settings, parse_allocator_settings(job.allocator.configuration, "allocator.configuration"));
  PLIMSOLL_CHECK(pytorch::check_supported(request.architecture, job));
  Prepared prepared{.job = std::move(job), .settings = std::move(settings)};
  prepared.outside = device_parts(gpu, prepared.job);
  prepared.capacity = std::max(Bytes{0}, gpu.usable_memory - prepared.outside.total());
  return prepared;
}

MemoryTimeline play(const Prepared& p, const Program& program, const Gpu& gpu, std::optional<Bytes> capacity,
                    bool keeps_events) {
  SimulatedDevice device(capacity, gpu.usable_memory);
  CachingHeap heap({.settings = p.settings, .device = &device});
  return simulate(program, heap, {.keeps_events = keeps_events, .library_workspace = gpu.cublas_workspace});
}

bool has_retries(const MemoryTimeline& timeline) {
  return std::ranges::any_of(timeline.phases, [](const auto& p) { return p.alloc_retries > 0; });
}

Bytes reserved_peak(const MemoryTimeline& timeline) {
  Bytes peak;
  for (const PhaseMemory& phase : timeline.phases) peak = std::max(peak, phase.reserved_peak);
  return peak;
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
  e.notes.push_back(
      fmt::format("host memory is a first ledger: {} for the process (an estimate), offloaded tensors, "
                  "the checkpoint being written; not reading the weights, data loading, page cache",
                  to_gib_text(kProcessBaseline)));
  for (const std::string& setting : p.settings.without_effect)
    e.notes.push_back(fmt::format("allocator setting {} has no effect on bytes", setting));
}

Estimate describe(const EstimateRequest& request, const Prepared& p, const Program& program) {
  const Architecture& a = request.architecture;
  Estimate e{.model_name = a.name,
             .family = a.family,
             .class_name = a.class_name,
             .parameters = a.parameter_count(),
             .active_parameters = a.active_parameter_count(),
             .gpu = request.gpu,
             .node = request.node,
             .job = p.job,
             .outside = p.outside,
             .capacity = p.capacity};
  e.host_capacity = request.node.host_memory / std::max<int64_t>(1, p.job.mesh.gpus_per_node);
  add_notes(a, p, program, e);
  return e;
}

void add_save_phase(const Prepared& p, EstimateRun& run) {
  const SaveStaging staging = save_staging(run.program, p.job);
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

Result<EstimateRun> run_estimate(const EstimateRequest& request) {
  PLIMSOLL_TRY(prepared, prepare(request));
  PLIMSOLL_TRY(program, pytorch::build_training(request.architecture, prepared.job));
  EstimateRun run{.estimate = describe(request, prepared, program), .program = std::move(program)};
  Estimate& e = run.estimate;
  MemoryTimeline limited = play(prepared, run.program, request.gpu, e.capacity, true);
  e.reserved_without_limit = reserved_peak(limited);
  if (limited.oom || has_retries(limited)) {
    MemoryTimeline unlimited = play(prepared, run.program, request.gpu, std::nullopt, true);
    e.reserved_without_limit = reserved_peak(unlimited);
    if (limited.oom) run.timeline = std::move(unlimited);
  }
  if (!limited.oom) run.timeline = std::move(limited);
  run.shown = shown_categories(run.program, run.timeline);
  e.phases = phases_of(run.program, run.timeline, run.shown, e.outside);
  if (prepared.job.loop.has_save) add_save_phase(prepared, run);
  e.verdict = judge(e, run.program, limited.oom ? limited : run.timeline);
  return run;
}

Result<QuickAnswer> quick_estimate(const EstimateRequest& request, const Program& program) {
  PLIMSOLL_TRY(prepared, prepare(request));
  const MemoryTimeline limited = play(prepared, program, request.gpu, prepared.capacity, false);
  QuickAnswer answer{.runs = !limited.oom};
  const bool is_limited = limited.oom || has_retries(limited);
  answer.wanted =
      prepared.outside.total() +
      reserved_peak(is_limited ? play(prepared, program, request.gpu, std::nullopt, false) : limited);
  answer.device_peak = limited.oom ? answer.wanted : prepared.outside.total() + reserved_peak(limited);
  return answer;
}

Result<QuickAnswer> quick_estimate(const EstimateRequest& request) {
  PLIMSOLL_TRY(prepared, prepare(request));
  PLIMSOLL_TRY(program, pytorch::build_training(request.architecture, prepared.job));
  return quick_estimate(request, program);
}

Result<void> check_estimable(const EstimateRequest& request) {
  PLIMSOLL_CHECK(prepare(request));
  return {};
}

}  // namespace plimsoll
