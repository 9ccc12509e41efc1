#include "train/run_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/text_table.h"
#include "strategy/names.h"

namespace plimsoll {
namespace {

using runtime::PhaseMemoryReport;

std::string mib(Bytes bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes.value) / (1 << 20)); }

double median_seconds(const RunLog& log) {
  std::vector<double> seconds;
  for (const runtime::StepReport& s : log.steps()) seconds.push_back(s.seconds);
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

// Mean seconds of a step in which nothing was computed; empty: none.
std::string waits_text(const RunLog& log) {
  double communication = 0, io = 0;
  for (const runtime::StepReport& s : log.steps()) {
    communication += s.communication_seconds;
    io += s.io_seconds;
  }
  if (communication + io == 0) return {};
  const auto count = static_cast<double>(log.steps().size());
  return fmt::format("waited in a step (mean): {:.4f} s for other ranks, {:.4f} s for host and disk\n",
                     communication / count, io / count);
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

// Each phase's peak on the device, and of each tier's highest one the categories.
std::string memory_text(const std::vector<PhaseMemoryReport>& memory) {
  TextTable phases({"MiB at the peak of", "predicted", "measured", "", "scratch of operators"}, right(5));
  for (const PhaseMemoryReport& m : memory)
    if (m.times > 0)
      phases.add({m.phase, mib(m.predicted.device().total), mib(measured_of(m, Tier::kGpu).total),
                  verdict_of(m), mib(m.scratch_peak)});
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

// Ranks run one program: what one of them keeps elsewhere the others do.
std::string ranks_text(std::span<const std::string> rows) {
  std::vector<std::string> header{"MiB at the highest peak of", "predicted", "measured", "",
                                  "scratch of operators"};
  const bool has_more = cells_of(rows.front()).size() >= header.size();
  if (has_more) header.insert(header.end(), {"on the host", "on disk"});
  TextTable table(header, right(header.size()));
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::string> cells = cells_of(rows[r]);
    cells.insert(cells.begin(), fmt::format("rank {}", r));
    table.add(cells);
  }
  return "\n" + table.to_text(2);
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

std::string run_page(const Architecture& architecture, const ResolvedJob& job,
                     const runtime::TrainingRun& run, const RunLog& log, std::span<const std::string> rows) {
  std::string text = fmt::format("{}: {} steps of {} sequences of {} tokens\n", architecture.name,
                                 log.steps().size(), job.batch.global_batch, job.batch.sequence);
  if (!log.steps().empty()) {
    const double seconds = median_seconds(log);
    text += fmt::format(
        "loss {:.4f} at first, {:.4f} at the end; {:.3f} s a step (median), {:.0f} tokens/s\n",
        log.steps().front().loss, log.steps().back().loss, seconds, log.tokens_per_step() / seconds);
    text += waits_text(log);
  }
  text += fmt::format(
      "\nAllocated bytes on {} rank, as the program predicts and as the tensor allocator counts\n\n{}",
      rows.size() > 1 ? "the first" : "this", memory_text(run.memory()));
  if (rows.size() > 1) text += ranks_text(rows);
  for (const std::string& note : run.notes()) text += fmt::format("\nnote: {}", note);
  return text + "\n";
}

}  // namespace plimsoll
