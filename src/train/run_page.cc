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
std::string speed_text(const RunLog& log, bool has_peers, const std::string& held_out) {
  using runtime::StepReport;
  constexpr double kGiga = 1e9;
  const double seconds = median_of(log, &StepReport::seconds);
  std::string text = fmt::format(
      "loss {:.4f} at first, {:.4f} at the end; {:.3f} s a step (median), {:.0f} tokens/s\n"
      "MFU {:.1f}%: the model takes {:.2f} GFLOP a step, this machine was measured to do {:.1f} a second\n",
      log.steps().front().loss, log.steps().back().loss, seconds, log.tokens_per_step() / seconds,
      100 * log.cost().utilization(seconds), log.cost().model_flops / kGiga, log.cost().peak_flops / kGiga);
  if (const auto& loss = log.steps().back().evaluation_loss)
    text += fmt::format("held out: loss {:.4f} at the end, {}\n", *loss, held_out);
  if (has_peers)
    text += fmt::format("collectives take {:.3f} s of a step, of which {:.3f} s are waited for\n",
                        median_of(log, &StepReport::collective_seconds),
                        median_of(log, &StepReport::communication_seconds));
  const double io = median_of(log, &StepReport::io_seconds);
  if (io > 0) text += fmt::format("host and disk are waited for {:.3f} s of a step\n", io);
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

const TierBytes& measured_of(const PhaseMemoryReport& m, Tier tier) {
  return m.measured.at(static_cast<size_t>(tier));
}

// What a tier holds where it holds the most; empty: it is not used.
std::string tier_text(const std::vector<PhaseMemoryReport>& memory, Tier tier) {
  const PhaseMemoryReport* highest = &memory.front();
  for (const PhaseMemoryReport& m : memory)
    if (m.times > 0 && measured_of(m, tier).total > measured_of(*highest, tier).total) highest = &m;
  const TierBytes& predicted = highest->predicted.of(tier);
  const TierBytes& measured = measured_of(*highest, tier);
  if (predicted.total + measured.total == Bytes{}) return {};
  TextTable table({fmt::format("MiB in {}{}", highest->phase,
                               tier == Tier::kGpu ? "" : fmt::format(", {}", name_of(tier))),
                   "predicted", "measured"},
                  right(3));
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (predicted.categories.at(c).value + measured.categories.at(c).value > 0)
      table.add({std::string(name_of(static_cast<Category>(c))), mib(predicted.categories.at(c)),
                 mib(measured.categories.at(c))});
  return "\n" + table.to_text(2);
}

// "fwd12" without its micro-batch.
std::string_view without_number(std::string_view phase) {
  return phase.substr(0, phase.find_last_not_of("0123456789") + 1);
}
std::string names_text(const std::vector<std::string>& names) {
  if (names.size() < 3) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} .. {} ({} alike)", names.front(), names.back(), names.size());
}

// Each phase's peak on the device, those of micro-batches that are alike in one row; and of each tier's
// highest one the categories.
std::string memory_text(const std::vector<PhaseMemoryReport>& memory) {
  TextTable phases({"MiB at the peak of", "predicted", "measured", "", "scratch of operators"}, right(5));
  std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> rows;  // phases, their cells
  for (const PhaseMemoryReport& m : memory) {
    if (m.times == 0) continue;
    std::vector<std::string> cells{mib(m.predicted.device().total), mib(measured_of(m, Tier::kGpu).total),
                                   verdict_of(m), mib(m.scratch_peak)};
    const auto same = std::ranges::find_if(rows, [&](const auto& row) {
      return row.second == cells && without_number(row.first.front()) == without_number(m.phase);
    });
    if (same == rows.end())
      rows.push_back({{m.phase}, std::move(cells)});
    else
      same->first.push_back(m.phase);
  }
  for (auto& [names, cells] : rows) {
    cells.insert(cells.begin(), names_text(names));
    phases.add(cells);
  }
  std::string text = phases.to_text(2);
  for (int t = 0; t < kTierCount; ++t) text += tier_text(memory, static_cast<Tier>(t));
  return text;
}

constexpr char kBetweenCells = '\t';

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream text(row);
  for (std::string cell; std::getline(text, cell, kBetweenCells);) cells.push_back(cell);
  return cells;
}

std::string rows_text(const std::vector<std::string>& head, std::span<const std::string> rows) {
  TextTable table(head, right(head.size()));
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::string> cells = cells_of(rows[r]);
    cells.insert(cells.begin(), fmt::format("rank {}", r));
    table.add(cells);
  }
  return "\n" + table.to_text(2);
}

// Ranks run one program: what one of them keeps elsewhere the others do.
std::vector<std::string> memory_head(std::span<const std::string> rows) {
  std::vector<std::string> head{"MiB at the highest peak of", "predicted", "measured", "",
                                "scratch of operators"};
  if (cells_of(rows.front()).size() >= head.size()) head.insert(head.end(), {"on the host", "on disk"});
  return head;
}

// Measured, the highest of all phases; pinned and pageable memory may peak at different moments.
Bytes peak_on(const runtime::TrainingRun& run, std::initializer_list<Tier> tiers) {
  Bytes sum;
  for (Tier tier : tiers) {
    Bytes peak;
    for (const PhaseMemoryReport& m : run.memory())
      if (m.times > 0) peak = std::max(peak, measured_of(m, tier).total);
    sum += peak;
  }
  return sum;
}

}  // namespace

std::string memory_row(const runtime::TrainingRun& run) {
  Bytes predicted, measured, scratch;
  int64_t times = 0;
  std::vector<std::string> different;
  for (const PhaseMemoryReport& m : run.memory()) {
    if (m.times == 0) continue;
    predicted = std::max(predicted, m.predicted.device().total);
    measured = std::max(measured, measured_of(m, Tier::kGpu).total);
    scratch = std::max(scratch, m.scratch_peak);
    times += m.times;
    if (m.times_different > 0) different.push_back(m.phase);
  }
  const std::string verdict = different.empty() ? fmt::format("equal {} times", times)
                                                : fmt::format("{} differ", fmt::join(different, ", "));
  std::string row = fmt::format("{1}{0}{2}{0}{3}{0}{4}", kBetweenCells, mib(predicted), mib(measured),
                                verdict, mib(scratch));
  const Bytes host = peak_on(run, {Tier::kHost, Tier::kHostPinned}), disk = peak_on(run, {Tier::kDisk});
  if (host + disk > Bytes{}) row += fmt::format("{0}{1}{0}{2}", kBetweenCells, mib(host), mib(disk));
  return row;
}

std::string resident_row(Bytes before) {
  return fmt::format("{1}{0}{2}", kBetweenCells, mib(runtime::resident_memory().peak), mib(before));
}

std::string run_page(const Architecture& architecture, const ResolvedJob& job,
                     const runtime::TrainingRun& run, const RunLog& log, const RankRows& ranks,
                     const RunPageWords& words) {
  const bool has_peers = ranks.memory.size() > 1;
  std::string text = fmt::format("{}: {} steps of {} sequences of {} tokens\n", architecture.name,
                                 log.steps().size(), job.batch.global_batch, job.batch.sequence);
  text += fmt::format("began with {}\n", words.weights);
  if (!log.steps().empty()) text += speed_text(log, has_peers, words.held_out);
  if (!words.checkpoints.empty()) text += fmt::format("checkpoint: {}\n", words.checkpoints);
  text += fmt::format(
      "\nAllocated bytes on {} rank, as the program predicts and as the tensor allocator counts\n\n{}",
      has_peers ? "the first" : "this", memory_text(run.memory()));
  if (has_peers) text += rows_text(memory_head(ranks.memory), ranks.memory);
  text += rows_text({"MiB resident of", "at the peak", "before the model"}, ranks.resident);
  for (const std::string& note : run.notes()) text += fmt::format("\nnote: {}", note);
  return text + "\n";
}

}  // namespace plimsoll
