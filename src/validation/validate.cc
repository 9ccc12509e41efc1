#include "validation/validate.h"

#include <algorithm>
#include <cmath>

#include "allocator/lower_bound_heap.h"
#include "base/data_dir.h"
#include "frameworks/pytorch/training.h"
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
  return unmapped.empty() &&
         std::ranges::all_of(phases, [](const auto& p) { return p.measured == p.predicted; });
}
bool RowComparison::has_equal_categories() const {
  return unmapped.empty() &&
         std::ranges::all_of(categories, [](const auto& c) { return c.second.first == c.second.second; });
}
double RowComparison::worst_error() const {
  double worst = 0;
  for (const PhaseComparison& p : phases) worst = std::max(worst, std::abs(p.relative_error()));
  return worst;
}

namespace {

Result<Architecture> architecture_of(const ReferenceRow& row) {
  if (!row.config.empty()) return read_hf_config(row.config);
  return read_model(row.job.model.name, data_dir(), {.layers = row.job.model.layers});
}

}  // namespace

Result<Program> program_of(const ReferenceRow& row) {
  if (!row.unmapped.empty()) return fail({.message = row.unmapped});
  PLIMSOLL_TRY(architecture, architecture_of(row));
  PLIMSOLL_TRY(job, resolve(row.job, architecture,
                            {.name = "reference", .gpus_per_node = 8, .compute_capability = 90}));
  return pytorch::build_training(architecture, job, {.sums_in_place = row.sums_in_place});
}

namespace {

void compare_categories(const ReferenceRow& row, const Program& program, const MemoryTimeline& timeline,
                        RowComparison& out) {
  std::map<std::string, int64_t> predicted;
  const std::vector<std::string_view> names = reference_categories(program, timeline);
  for (const PhaseMemory& phase : timeline.phases) {
    if (phase.phase != row.peak_phase || !phase.peak_event) continue;
    for (const LiveStorage& s : live_at(timeline, *phase.peak_event))
      predicted[std::string(names[s.born_event])] +=
          round_up(program.storage(s.storage).bytes, Bytes{512}).value;
  }
  for (const auto& [name, bytes] : row.peak_categories) out.categories[name] = {bytes, predicted[name]};
}

}  // namespace

RowComparison compare(const ReferenceRow& row) {
  RowComparison out{.row = &row};
  const Result<Program> program = program_of(row);
  if (!program) {
    out.unmapped = program.error().message;
    return out;
  }
  LowerBoundHeap heap;
  const MemoryTimeline timeline =
      simulate(*program, heap, {.keeps_events = true, .workspaces_in_heap = false});
  for (const auto& [phase, measured] : row.phase_peaks) {
    PhaseComparison c{.phase = phase, .measured = measured};
    for (const PhaseMemory& p : timeline.phases)
      if (p.phase == phase) c.predicted = p.live_peak.value;
    out.phases.push_back(std::move(c));
  }
  compare_categories(row, *program, timeline, out);
  return out;
}

}  // namespace plimsoll
