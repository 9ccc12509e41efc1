// The answer to one job: what each phase needs on one rank's GPU and of its host, and whether that fits.
//
//   Result<EstimateRun> run = run_estimate({.architecture = a, .job = job, .gpu = gpu, .node = node});
//   run->estimate.phases[2].use.device;      // steady step, peak
//   run->estimate.verdict.gpu;               // Fit::kFits
//
// live: living storages, each rounded up to 512 bytes. allocated, active, reserved: the caching allocator's
// counters after a replay of the program's own events. device: reserved, and what the process holds outside
// the allocator. host: of this rank's process.
// Source: facts of PyTorch's allocator and of the GPU's file; what is an estimate has a note.
// Does not model: time; more than one representative rank.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimate/device_parts.h"
#include "hardware/cluster.h"
#include "hardware/gpu.h"
#include "model/architecture.h"
#include "simulator/peak_categories.h"
#include "strategy/job.h"

namespace plimsoll {

enum class PhaseKind { kLoad, kFirstStep, kSteadyStep, kEvaluation, kSave };
inline constexpr int kPhaseKinds = 5;
std::string_view name_of(PhaseKind phase);        // "steady_step", as in JSON
std::string_view shown_name_of(PhaseKind phase);  // "steady step"

// Highest values reached; each may have been reached at a moment of its own.
struct MemoryUse {
  Bytes live, allocated, active, reserved, device, host;
  Bytes host_pinned, host_pageable;  // of the host, what the program keeps there
  Bytes disk;
  CategoryBytes categories;  // at the live peak; kWorkspace is what libraries and kernels hold on top of it
  std::string peak_op;      // that reached the live peak: "aten::mm.default"; empty: the phase starts with it
  std::string peak_module;  // where: "model.layers.3.mlp.down_proj"
  uint32_t timeline_phase = 0;  // MemoryTimeline::phases in which the live peak is
  std::optional<size_t> peak_event;
};

struct PhaseEstimate {
  PhaseKind kind = PhaseKind::kLoad;
  MemoryUse use;
  std::optional<MemoryUse> forward, backward, optimizer;  // of the steps
  std::string part;                                       // "bwd2": only this part of it; empty: all of it
};

enum class Fit { kFits, kAtRisk, kOutOfMemory };
std::string_view name_of(Fit fit);  // "fits", "at-risk", "oom"

// The request that the caching allocator could not serve.
struct FailedRequest {
  PhaseKind phase = PhaseKind::kLoad;
  std::string timeline_phase;  // "bwd1"
  std::string op, module;
  OutOfMemory details;
};

struct Verdict {
  Fit gpu = Fit::kFits, host = Fit::kFits;
  std::vector<std::string> reasons;
  std::optional<FailedRequest> failed;
  int64_t alloc_retries = 0;  // times the allocator had to give back cached segments to go on
  Bytes to_fit;               // of a job at risk on the GPU: what it would have to take less there
  Bytes host_to_fit;  // of one that doesn't fit on the host: what each rank would have to take less there

  Fit worst() const { return std::max(gpu, host); }
};

// One of the ranks that differ: a stage of a pipeline.
struct RankEstimate {
  int64_t rank = 0;
  Bytes live, allocated, reserved, device;  // peaks over all phases
};

struct Estimate {
  std::string model_name, family, class_name;
  Task task = Task::kCausalLm;
  int64_t parameters = 0, active_parameters = 0;
  Gpu gpu;
  Node node;
  ResolvedJob job;
  DeviceParts outside;  // of the allocator, on the device
  Bytes capacity;       // that the allocator may take: what is left, or the fraction it is allowed
  Bytes host_capacity;  // of one rank: the node's memory over its ranks
  std::vector<PhaseEstimate>
      phases;  // those the job has, in order; as if the device had no limit when memory runs out
  Bytes reserved_without_limit;     // what the allocator would take of a larger device
  Bytes host_peak;                  // of one rank's process, highest over all phases
  int64_t rank = 0;                 // that all of this is of
  std::vector<RankEstimate> ranks;  // the distinct ones, where there are several; `rank` is the worst
  Verdict verdict;
  std::vector<std::string> notes;

  const PhaseEstimate& peak_phase() const;  // with the highest device use
  Bytes device_peak() const { return peak_phase().use.device; }
  // What the peak may be: the GPU's usable memory, or what a memory fraction leaves of it.
  Bytes device_limit() const { return std::min(gpu.usable_memory, capacity + outside.total()); }
  Bytes wanted() const { return reserved_without_limit + outside.total(); }  // on a device without limit
};

// The program and its run, for those who look closer.
struct EstimateRun {
  Estimate estimate;
  Program program;
  MemoryTimeline timeline;         // of the phases above; events kept
  std::vector<Category> shown;     // by event
  std::optional<Bytes> available;  // on the device that the timeline is of; empty: a device without limit
};

struct EstimateRequest {
  const Architecture& architecture;
  const Job& job;
  const Gpu& gpu;
  const Node& node;
  std::optional<int64_t> rank;  // of the distinct ranks; empty: the one with the highest device use
};

// Errors: a contradiction in the job; a choice without a recipe.
Result<EstimateRun> run_estimate(const EstimateRequest& request);

// The highest device use and the verdict, as run_estimate() gives them: what a changed job is asked for.
struct QuickAnswer {
  Bytes device_peak;  // Estimate::device_peak()
  Bytes wanted;       // Estimate::wanted()
  Bytes host_peak;    // Estimate::host_peak
  Fit gpu = Fit::kFits, host = Fit::kFits;
};
Result<QuickAnswer> quick_estimate(const EstimateRequest& request);
// The same for a job that differs from that of `program` in the allocator only.
Result<QuickAnswer> quick_estimate(const EstimateRequest& request, const Program& program);
// Whether the job can be estimated at all, without building anything.
Result<void> check_estimable(const EstimateRequest& request);
// The settings that take back values which mean nothing in the job, and for which it is refused.
std::vector<std::string> resets_of_unused(const EstimateRequest& request);

}  // namespace plimsoll
