#include "report/estimate_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "base/text_table.h"
#include "report/improvements_text.h"
#include "report/job_text.h"
#include "report/ladder.h"

namespace plimsoll {
namespace {

std::string number(Bytes bytes) {
  if (bytes.value == 0) return "-";
  const double gib = static_cast<double>(bytes.value) / static_cast<double>(kGiB.value);
  return fmt::format("{:.2f}", gib);
}

std::string to_fit_text(const Verdict& verdict) {
  std::vector<std::string> less;
  if (verdict.to_fit.value > 0)
    less.push_back(fmt::format("{} less on each GPU", to_gib_text(verdict.to_fit)));
  if (verdict.host_to_fit.value > 0)
    less.push_back(fmt::format("{} less on the host for each rank", to_gib_text(verdict.host_to_fit)));
  // How much less a job that runs out of memory has to take isn't known: it depends on what is changed.
  if (less.empty() || verdict.gpu == Fit::kOutOfMemory) return {};
  return wrapped(fmt::format("to fit, it has to take {}", fmt::join(less, " and ")));
}

std::string verdict_text(const Estimate& e) {
  std::string text = verdict_line(e);
  for (const std::string& reason : e.verdict.reasons) text += wrapped(reason);
  return text + to_fit_text(e.verdict);
}

std::string peak_text(const Estimate& e) {
  const PhaseEstimate& phase = e.peak_phase();
  std::string text = fmt::format("Peak: {}", shown_name_of(phase.kind));
  if (!phase.use.peak_op.empty()) text += fmt::format(", live memory at {}", phase.use.peak_op);
  if (!phase.use.peak_module.empty()) text += fmt::format(" of {}", phase.use.peak_module);
  return text + "\n";
}

using Quantity = std::function<Bytes(const MemoryUse&)>;

class LadderTable {
 public:
  explicit LadderTable(const Estimate& e) : e_(e), table_(header(), alignment()) {}

  std::string to_text() {
    for (const Rung& rung : live_rungs())
      row(std::string(rung.name), [&](const MemoryUse& use) { return bytes_of(rung, use.categories); });
    total("= live", [](const MemoryUse& use) { return use.live; });
    row("workspaces", workspace_of);
    row("allocator slack", slack_of);
    total("= reserved", [](const MemoryUse& use) { return use.reserved; });
    row("context", [&](const MemoryUse&) { return e_.outside.context.bytes; });
    row("communicators", [&](const MemoryUse&) { return e_.outside.communicator_bytes(); });
    total("= device", [](const MemoryUse& use) { return use.device; });
    row("allocated", [](const MemoryUse& use) { return use.allocated; });
    row("host, per rank", [](const MemoryUse& use) { return use.host; });
    row("  pinned", [](const MemoryUse& use) { return use.host_pinned; });
    row("  pageable", [](const MemoryUse& use) { return use.host_pageable; });
    row("disk, per rank", [](const MemoryUse& use) { return use.disk; });
    return table_.to_text(2);
  }

 private:
  std::vector<std::string> header() const {
    std::vector<std::string> cells{"GiB at the peak of"};
    for (const PhaseEstimate& phase : e_.phases) cells.emplace_back(shown_name_of(phase.kind));
    return cells;
  }
  std::vector<Align> alignment() const {
    std::vector<Align> alignment(e_.phases.size() + 1, Align::kRight);
    alignment[0] = Align::kLeft;
    return alignment;
  }
  bool row(std::string name, const Quantity& quantity) {
    bool is_any = false;
    std::vector<std::string> cells{std::move(name)};
    for (const PhaseEstimate& phase : e_.phases) {
      const Bytes bytes = quantity(phase.use);
      is_any = is_any || bytes.value != 0;
      cells.push_back(number(bytes));
    }
    if (is_any) table_.add(std::move(cells));
    return is_any;
  }
  void total(std::string name, const Quantity& quantity) {
    row(std::move(name), quantity);
    table_.add_rule();
  }

  const Estimate& e_;
  TextTable table_;
};

constexpr std::string_view kLegend =
    "live: tensors alive, each rounded up to 512 bytes. allocated: torch.cuda.max_memory_allocated(). "
    "reserved: max_memory_reserved(). device: what nvidia-smi shows of the process. Peaks of one column may "
    "be "
    "at different moments.";

std::string legend(const Estimate& e) {
  const bool is_oom = e.verdict.gpu == Fit::kOutOfMemory;
  return (is_oom ? "The run stops at the request that fails: this table is of a GPU without limit. " : "") +
         std::string(kLegend);
}

std::string list_text(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string text = fmt::format("\n{}\n", title);
  for (const std::string& line : lines) text += wrapped(line);
  return text;
}

// "batch: sequence = 4096 (a usual length), micro_batch = 1 (the smallest)": a line for each section.
std::vector<std::string> assumed_lines(const ResolvedJob& job) {
  std::vector<std::string> lines;
  std::string section;
  for (const Assumption& a : job.assumed) {
    const size_t dot = a.field.find('.');
    const std::string of = dot == std::string::npos ? "" : a.field.substr(0, dot);
    const std::string value = fmt::format("{} = {}", a.field.substr(dot == std::string::npos ? 0 : dot + 1),
                                          a.value.empty() ? "\"\"" : a.value);
    if (lines.empty() || of != section)
      lines.push_back(of.empty() ? value : fmt::format("{}: {}", of, value));
    else
      lines.back() += ", " + value;
    section = of;
  }
  return lines;
}

// The distinct ranks, when there are several.
std::string ranks_text(const Estimate& e) {
  if (e.ranks.empty()) return {};
  TextTable table({"GiB at each rank's peak", "live", "allocated", "reserved", "device", ""},
                  {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft});
  for (const RankEstimate& r : e.ranks)
    table.add({fmt::format("pipeline stage {}", r.rank), number(r.live), number(r.allocated),
               number(r.reserved), number(r.device), r.rank == e.rank ? "shown above" : ""});
  return "\nRanks that differ\n" + table.to_text(2);
}

}  // namespace

std::string estimate_page(const Estimate& e, const Improvements& improvements) {
  std::string text = job_headline(e) + "\n" + verdict_text(e);
  text += cure_text(e, improvements);
  text += peak_text(e) + "\n" + LadderTable(e).to_text() + "\n" + wrapped(legend(e));
  text += ranks_text(e);
  if (!e.job.megatron) text += improvements_text(e, improvements);
  text += list_text("Assumed", assumed_lines(e.job));
  text += list_text("Notes", e.notes);
  return text;
}

}  // namespace plimsoll
