#include "report/explain_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.h"
#include "estimate/phases.h"
#include "report/holders.h"
#include "report/job_text.h"
#include "report/memory_curve.h"

namespace plimsoll {
namespace {

// "steady step: live memory peaks at 44.10 GiB in bwd2"; a save only holds what the phase before it left.
std::string peak_words(const PhaseEstimate& phase, const std::string& at) {
  const std::string name = phase.part.empty() ? std::string(shown_name_of(phase.kind)) : phase.part;
  const std::string bytes = to_gib_text(phase.use.live);
  if (phase.kind == PhaseKind::kSave)
    return fmt::format("{}: {} are alive, what {} left, and nothing new on the GPU", name, bytes, at);
  return fmt::format("{}: live memory peaks at {}{}", name, bytes, at == name ? "" : " in " + at);
}

std::string peak_text(const EstimateRun& run, const PhaseEstimate& phase) {
  const MemoryUse& use = phase.use;
  std::string text = peak_words(phase, run.timeline.phases[use.timeline_phase].phase);
  if (!use.peak_op.empty()) text += fmt::format(", at {}", use.peak_op);
  if (!use.peak_module.empty()) text += fmt::format(" of {}", use.peak_module);
  return text + fmt::format("\nallocated {}, active {}, reserved {}, device {}; each peak on its own\n",
                            to_gib_text(use.allocated), to_gib_text(use.active), to_gib_text(use.reserved),
                            to_gib_text(use.device));
}

std::string verdict_text(const Estimate& e) {
  const bool is_oom = e.verdict.gpu == Fit::kOutOfMemory;
  return verdict_line(e) + (is_oom ? "  what follows is of a GPU without limit\n" : "");
}

std::string curve_text(const EstimateRun& run, const PhaseEstimate& phase) {
  const auto is_meant = [&](const PhaseMemory& p) {
    return phase.part.empty() ? phase_kind_of(p.phase) == phase.kind : p.phase == phase.part;
  };
  const auto& phases = run.timeline.phases;
  const auto first = std::ranges::find_if(phases, is_meant);
  if (first == phases.end()) return "";
  const auto last = std::find_if_not(first, phases.end(), is_meant) - 1;
  return "\nLive memory, event by event\n" + memory_curve(run, static_cast<uint32_t>(first - phases.begin()),
                                                          static_cast<uint32_t>(last - phases.begin()));
}

std::string holders_text(const std::vector<HolderGroup>& groups, size_t most_lines) {
  TextTable table({"total", "count", "each", "category", "module", "made by", "born", "dies"},
                  {Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft, Align::kLeft,
                   Align::kLeft, Align::kLeft});
  Bytes rest;
  int64_t rest_count = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const HolderGroup& g = groups[i];
    if (i >= most_lines) {
      rest += g.total();
      rest_count += g.count;
      continue;
    }
    table.add({to_text(g.total()), std::to_string(g.count), to_text(g.each), std::string(name_of(g.category)),
               g.module.empty() ? "(model)" : g.module, g.made_by, g.born, g.dies});
  }
  if (rest_count > 0)
    table.add({to_text(rest), std::to_string(rest_count), "", "",
               fmt::format("{} more lines", groups.size() - most_lines)});
  return table.to_text(2);
}

}  // namespace

std::string explain_page(const EstimateRun& run, const PhaseEstimate& phase, const ExplainOptions& options) {
  std::string text = job_headline(run.estimate) + "\n" + verdict_text(run.estimate) + "\n" +
                     peak_text(run, phase) + curve_text(run, phase);
  if (!phase.use.peak_event)
    return text + "\nNothing is allocated in this phase beyond what it starts with.\n";
  text += "\nAlive at the peak\n";
  return text + holders_text(holders_at(run, *phase.use.peak_event), options.most_lines);
}

}  // namespace plimsoll
