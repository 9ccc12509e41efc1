#include "validation/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "allocator/lower_bound_heap.h"
#include "base/block.h"
#include "base/data_dir.h"
#include "estimate/estimate.h"
#include "estimate/phases.h"
#include "frameworks/build_training.h"
#include "frameworks/pytorch/training.h"
#include "frameworks/torchtitan/training.h"
#include "hardware/catalog.h"
#include "importers/hf_config/hf_config.h"
#include "importers/hf_config/presets.h"
#include "simulator/event_trace.h"
#include "simulator/simulator.h"
#include "strategy/resolve.h"

namespace plimsoll {

double PhaseComparison::relative_error() const {
  return measured == 0 ? 0 : static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

bool RowComparison::is_exact() const {
  return unmapped.empty() && !phases.empty() &&
         std::ranges::all_of(phases, [](const auto& p) { return p.measured == p.predicted; });
}
bool RowComparison::has_equal_categories() const {
  return has_categories() &&
         std::ranges::all_of(categories, [](const auto& c) { return c.second.first == c.second.second; });
}
double RowComparison::worst_error() const {
  double worst = 0;
  for (const PhaseComparison& p : phases) worst = std::max(worst, std::abs(p.relative_error()));
  return worst;
}

namespace {

Result<Architecture> architecture_of(const ReferenceRow& row) {
  if (row.architecture) return *row.architecture;
  if (!row.config.empty()) return read_hf_config(row.config);
  const ModelChoice& model = row.job.model;
  return read_model(model.name, data_dir(), {.layers = model.layers, .overrides = model.overrides});
}

std::string family_of(const ReferenceRow& row) {
  if (!row.family.empty()) return row.family;
  const Result<Architecture> architecture = architecture_of(row);
  return architecture ? architecture->family : "";
}

Result<Program> megatron_program_of(const ReferenceRow& row, const Architecture& architecture) {
  PLIMSOLL_TRY(gpu, find_gpu(row.job.hardware.gpu));
  PLIMSOLL_TRY(job, resolve(row.job, architecture,
                            {.name = gpu.name,
                             .compute_capability = compute_capability_of(gpu.architecture),
                             .multiprocessors = gpu.multiprocessors}));
  return build_training_program(architecture, job, row.rank);
}

}  // namespace

Result<Program> program_of(const ReferenceRow& row) {
  if (!row.unmapped.empty()) return fail({.message = row.unmapped});
  PLIMSOLL_TRY(architecture, architecture_of(row));
  if (row.job.megatron) return megatron_program_of(row, architecture);
  PLIMSOLL_TRY(job, resolve(row.job, architecture,
                            {.name = "reference", .gpus_per_node = 8, .compute_capability = 90}));
  const pytorch::TrainingOptions options{.sums_in_place = row.sums_in_place, .lists_states = true};
  if (job.framework == Framework::kTorchtitan) return torchtitan::build_training(architecture, job, options);
  return pytorch::build_training(architecture, job, options);
}

namespace {

// Bytes of each category right after the event.
std::map<std::string, int64_t> categories_after(const Program& program, const MemoryTimeline& timeline,
                                                size_t event) {
  std::map<std::string, int64_t> bytes;
  const std::vector<std::string_view> names = reference_categories(program, timeline);
  for (size_t i = 0; i <= event && i < timeline.events.size(); ++i) {
    const Storage& storage = program.storage(timeline.events[i].storage);
    if (storage.tier != Tier::kGpu) continue;
    const int64_t rounded = round_to_block(storage.bytes).value;
    bytes[std::string(names[i])] += timeline.events[i].is_alloc ? rounded : -rounded;
  }
  return bytes;
}

// The reference names the phase of its peak; the first one by that name is meant.
void compare_categories(const ReferenceRow& row, const Program& program, const MemoryTimeline& timeline,
                        RowComparison& out) {
  std::map<std::string, int64_t> predicted;
  const auto phase = std::ranges::find(timeline.phases, row.peak_phase, &PhaseMemory::phase);
  if (phase != timeline.phases.end() && phase->peak_event)
    predicted = categories_after(program, timeline, *phase->peak_event);
  for (const auto& [name, bytes] : row.peak_categories) out.categories[name] = {bytes, predicted[name]};
}

Bytes figure_of(const PhaseMemory& phase, MeasuredQuantity quantity, Bytes outside) {
  switch (quantity) {
    case MeasuredQuantity::kLive:
      return phase.live_peak;
    case MeasuredQuantity::kAllocated:
      return phase.allocated_peak;
    case MeasuredQuantity::kActive:
      return phase.active_peak;
    case MeasuredQuantity::kReserved:
      return phase.reserved_peak;
    case MeasuredQuantity::kDevice:
      return phase.reserved_peak + outside;
  }
  return {};
}

constexpr std::string_view kWholeRun = "peak";

// `name` is a phase of the program ("bwd2"), one of a report ("steady_step"), or the whole run.
bool is_part_of(const PhaseMemory& phase, std::string_view name) {
  return phase.phase == name || name == kWholeRun || name_of(phase_kind_of(phase.phase)) == name;
}

// In the order in which they run; a phase that the job lacks is why the row isn't mapped.
void compare_phases(const ReferenceRow& row, const MemoryTimeline& timeline, Bytes outside,
                    RowComparison& out) {
  std::set<std::string> missing;
  for (const auto& [name, measured] : row.phase_peaks) missing.insert(name);
  for (const PhaseMemory& p : timeline.phases)
    for (const auto& [name, measured] : row.phase_peaks) {
      if (!is_part_of(p, name)) continue;
      const int64_t figure = figure_of(p, row.quantity, outside).value;
      const auto known = std::ranges::find(out.phases, name, &PhaseComparison::phase);
      if (known == out.phases.end())
        out.phases.push_back({.phase = name, .measured = measured, .predicted = figure});
      else
        known->predicted = std::max(known->predicted, figure);
      missing.erase(name);
    }
  if (missing.empty()) return;
  std::vector<std::string_view> names;
  for (const PhaseMemory& p : timeline.phases) names.push_back(p.phase);
  out.phases.clear();
  out.unmapped = fmt::format("the job has no phase {}; it has {}, first_step, steady_step and peak",
                             *missing.begin(), fmt::join(names, ", "));
}

// What depends on the GPU: the run in its caching allocator.
Result<void> compare_on_gpu(const ReferenceRow& row, RowComparison& out) {
  PLIMSOLL_TRY(architecture, architecture_of(row));
  PLIMSOLL_TRY(gpu, find_gpu(row.job.hardware.gpu));
  PLIMSOLL_TRY(cluster, default_cluster_for(gpu));
  PLIMSOLL_TRY(
      run, run_estimate({.architecture = architecture, .job = row.job, .gpu = gpu, .node = cluster.node}));
  compare_phases(row, run.timeline, run.estimate.outside.total(), out);
  return {};
}

Result<void> compare_live(const ReferenceRow& row, RowComparison& out) {
  PLIMSOLL_TRY(program, program_of(row));
  LowerBoundHeap heap;
  const MemoryTimeline timeline =
      simulate(program, heap, {.keeps_events = true, .workspaces_in_heap = false});
  compare_phases(row, timeline, {}, out);
  if (out.is_mapped()) compare_categories(row, program, timeline, out);
  return {};
}

RowComparison compare_or_say_why(const ReferenceRow& row) {
  try {
    return compare(row);
  } catch (const std::exception& e) {  // of libraries: one row must not stop the others
    return {.row = &row, .family = row.family, .unmapped = fmt::format("internal error: {}", e.what())};
  }
}

}  // namespace

RowComparison compare(const ReferenceRow& row) {
  RowComparison out{.row = &row, .family = family_of(row)};
  const Result<void> done =
      row.quantity == MeasuredQuantity::kLive ? compare_live(row, out) : compare_on_gpu(row, out);
  if (!done) out.unmapped = done.error().message;
  return out;
}

std::vector<RowComparison> compare_all(const std::vector<ReferenceRow>& rows, int threads,
                                       const std::function<void(size_t)>& on_done) {
  std::vector<RowComparison> comparisons(rows.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < rows.size(); i = next++) {
      comparisons[i] = compare_or_say_why(rows[i]);
      const std::lock_guard lock(mutex);
      on_done(++done);
    }
  };
  std::vector<std::jthread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back(work);
  work();
  return comparisons;
}

}  // namespace plimsoll
