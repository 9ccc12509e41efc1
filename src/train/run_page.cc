#include "train/run_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/text_table.h"
#include "runtime/resident_memory.h"
#include "strategy/names.h"

namespace plimsoll {
namespace {

using runtime::PhaseMemoryReport;

std::string mib(Bytes bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes.value) / (1 << 20)); }

double median_of(const RunLog& log, double runtime::StepReport::*member) {
  std::vector<double> values;
  for (const runtime::StepReport& s : log.steps()) values.push_back(s.*member);
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Medians over the steps, the first one among them.
std::string speed_text(const RunLog& log, bool has_peers) {
  using runtime::StepReport;
  constexpr double kGiga = 1e9;
  const double seconds = median_of(log, &StepReport::seconds);
  std::string text = fmt::format(
      "loss {:.4f} at first, {:.4f} at the end; {:.3f} s a step (median), {:.0f} tokens/s\n"
      "MFU {:.1f}%: the model takes {:.2f} GFLOP a step, this machine was measured to do {:.1f} a second\n",
      log.steps().front().loss, log.steps().back().loss, seconds, log.tokens_per_step() / seconds,
      100 * log.cost().utilization(seconds), log.cost().model_flops / kGiga, log.cost().peak_flops / kGiga);
  if (const auto& loss = log.steps().back().evaluation_loss)
    text += fmt::format("held out: loss {:.4f} at the end\n", *loss);
  if (has_peers)
    text += fmt::format("collectives take {:.3f} s of a step, of which {:.3f} s are waited for\n",
                        median_of(log, &StepReport::collective_seconds),
                        median_of(log, &StepReport::communication_seconds));
  const double recompute = median_of(log, &StepReport::recompute_seconds);
  if (recompute > 0) text += fmt::format("recomputing takes {:.3f} s of a step\n", recompute);
  return text;
}

std::string verdict_of(const PhaseMemoryReport& m) {
  if (m.times == 0) return "not played";
  if (m.times_different == 0) return "equal";
  return fmt::format("{} of {} differ", m.times_different, m.times);
}

std::vector<Align> right(size_t columns) {
  std::vector<Align> alignment(columns, Align::kRight);
  alignment[0] = Align::kLeft;
  return alignment;
}

// Each phase's peak, and of the highest one the categories.
std::string memory_text(const std::vector<PhaseMemoryReport>& memory) {
  TextTable phases({"MiB at the peak of", "predicted", "measured", "", "scratch of operators"}, right(5));
  const PhaseMemoryReport* highest = &memory.front();
  for (const PhaseMemoryReport& m : memory) {
    if (m.times == 0) continue;
    phases.add({m.phase, mib(m.predicted.total), mib(m.measured.total), verdict_of(m), mib(m.scratch_peak)});
    if (m.measured.total > highest->measured.total) highest = &m;
  }
  TextTable categories({fmt::format("MiB in {}", highest->phase), "predicted", "measured"}, right(3));
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (highest->predicted.categories.at(c).value + highest->measured.categories.at(c).value > 0)
      categories.add({std::string(name_of(static_cast<Category>(c))),
                      mib(highest->predicted.categories.at(c)), mib(highest->measured.categories.at(c))});
  return phases.to_text(2) + "\n" + categories.to_text(2);
}

constexpr char kBetweenCells = '\t';

std::string rows_text(const std::vector<std::string>& head, std::span<const std::string> rows) {
  TextTable table(head, right(head.size()));
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::string> cells{fmt::format("rank {}", r)};
    std::istringstream row(rows[r]);
    for (std::string cell; std::getline(row, cell, kBetweenCells);) cells.push_back(cell);
    table.add(cells);
  }
  return "\n" + table.to_text(2);
}

}  // namespace

std::string memory_row(const runtime::TrainingRun& run) {
  Bytes predicted, measured, scratch;
  int64_t times = 0;
  std::vector<std::string> different;
  for (const PhaseMemoryReport& m : run.memory()) {
    if (m.times == 0) continue;
    predicted = std::max(predicted, m.predicted.total);
    measured = std::max(measured, m.measured.total);
    scratch = std::max(scratch, m.scratch_peak);
    times += m.times;
    if (m.times_different > 0) different.push_back(m.phase);
  }
  const std::string verdict = different.empty() ? fmt::format("equal {} times", times)
                                                : fmt::format("{} differ", fmt::join(different, ", "));
  return fmt::format("{1}{0}{2}{0}{3}{0}{4}", kBetweenCells, mib(predicted), mib(measured), verdict,
                     mib(scratch));
}

std::string resident_row(Bytes before) {
  return fmt::format("{1}{0}{2}", kBetweenCells, mib(runtime::resident_memory().peak), mib(before));
}

std::string run_page(const Architecture& architecture, const ResolvedJob& job,
                     const runtime::TrainingRun& run, const RunLog& log, const RankRows& ranks) {
  const bool has_peers = ranks.memory.size() > 1;
  std::string text = fmt::format("{}: {} steps of {} sequences of {} tokens\n", architecture.name,
                                 log.steps().size(), job.batch.global_batch, job.batch.sequence);
  if (!log.steps().empty()) text += speed_text(log, has_peers);
  text += fmt::format(
      "\nAllocated bytes on {} rank, as the program predicts and as the tensor allocator counts\n\n{}",
      has_peers ? "the first" : "this", memory_text(run.memory()));
  if (has_peers)
    text += rows_text({"MiB at the highest peak of", "predicted", "measured", "", "scratch of operators"},
                      ranks.memory);
  text += rows_text({"MiB resident of", "at the peak", "before the model"}, ranks.resident);
  for (const std::string& note : run.training().program.notes) text += fmt::format("\nnote: {}", note);
  return text + "\n";
}

}  // namespace plimsoll
