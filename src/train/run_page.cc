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

std::string ranks_text(std::span<const std::string> rows) {
  TextTable table({"MiB at the highest peak of", "predicted", "measured", "", "scratch of operators"},
                  right(5));
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

std::string run_page(const Architecture& architecture, const ResolvedJob& job,
                     const runtime::TrainingRun& run, const RunLog& log, std::span<const std::string> rows) {
  std::string text = fmt::format("{}: {} steps of {} sequences of {} tokens\n", architecture.name,
                                 log.steps().size(), job.batch.global_batch, job.batch.sequence);
  if (!log.steps().empty()) {
    const double seconds = median_seconds(log);
    text += fmt::format(
        "loss {:.4f} at first, {:.4f} at the end; {:.3f} s a step (median), {:.0f} tokens/s\n",
        log.steps().front().loss, log.steps().back().loss, seconds, log.tokens_per_step() / seconds);
  }
  text += fmt::format(
      "\nAllocated bytes on {} rank, as the program predicts and as the tensor allocator counts\n\n{}",
      rows.size() > 1 ? "the first" : "this", memory_text(run.memory()));
  if (rows.size() > 1) text += ranks_text(rows);
  for (const std::string& note : run.training().program.notes) text += fmt::format("\nnote: {}", note);
  return text + "\n";
}

}  // namespace plimsoll
