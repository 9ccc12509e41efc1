#include "validation/accuracy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text_table.h"

namespace plimsoll {
namespace {

// The smallest of the sorted errors that at least `part` of them don't exceed.
double quantile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

AccuracySummary summarize(const std::vector<RowComparison>& comparisons, const std::string& family) {
  AccuracySummary s{.name = family};
  std::vector<double> errors;
  for (const RowComparison& c : comparisons) {
    if (!family.empty() && c.family != family) continue;
    ++s.rows;
    if (!c.is_mapped()) continue;
    ++s.mapped;
    s.exact += c.is_exact();
    s.with_categories += c.has_categories();
    s.equal_categories += c.has_equal_categories();
    errors.push_back(c.worst_error());
  }
  std::ranges::sort(errors);
  s.median = quantile(errors, 0.5);
  s.p95 = quantile(errors, 0.95);
  s.worst = errors.empty() ? 0 : errors.back();
  return s;
}

std::string percent(double part) { return fmt::format("{:.4f} %", 100 * part); }

// Of phases that are equally far off the one with the peak.
const PhaseComparison* worst_phase(const RowComparison& c) {
  const auto found = std::ranges::max_element(
      c.phases, {}, [](const auto& p) { return std::pair(std::abs(p.relative_error()), p.measured); });
  return found == c.phases.end() ? nullptr : &*found;
}

std::string verdict_of(const RowComparison& c) {
  if (c.is_exact())
    return c.has_categories() && !c.has_equal_categories() ? "exact, categories differ" : "exact";
  return fmt::format("OFF: {} of {} phases differ",
                     std::ranges::count_if(c.phases, [](const auto& p) { return p.predicted != p.measured; }),
                     c.phases.size());
}

void add_phase(TextTable& table, const RowComparison& c, const PhaseComparison& p, bool is_first) {
  table.add({is_first ? c.row->id : "", is_first ? std::string(name_of(c.row->quantity)) : "", p.phase,
             with_thousands(p.predicted), with_thousands(p.measured),
             p.predicted == p.measured ? "0" : percent(p.relative_error()), is_first ? verdict_of(c) : ""});
}

std::string rows_text(const std::vector<RowComparison>& comparisons, bool shows_all_phases) {
  TextTable table(
      {"row", "quantity", "phase", "predicted", "measured", "error", ""},
      {Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kLeft});
  for (const RowComparison& c : comparisons) {
    if (!c.is_mapped()) continue;
    if (shows_all_phases) {
      for (const PhaseComparison& p : c.phases) add_phase(table, c, p, &p == &c.phases.front());
    } else if (const PhaseComparison* p = worst_phase(c)) {
      add_phase(table, c, *p, true);
    }
  }
  return table.to_text();
}

std::string unmapped_text(const std::vector<RowComparison>& comparisons) {
  TextTable table({"", ""}, {Align::kLeft, Align::kLeft});
  size_t count = 0;
  for (const RowComparison& c : comparisons) {
    if (c.is_mapped()) continue;
    ++count;
    table.add({c.row->id, c.unmapped});
  }
  return count == 0 ? "" : fmt::format("\nNot mapped ({})\n{}", count, table.to_text(2));
}

std::string off_text(const std::vector<RowComparison>& comparisons) {
  std::vector<std::string_view> ids;
  for (const RowComparison& c : comparisons)
    if (c.is_mapped() && !c.is_exact()) ids.push_back(c.row->id);
  return ids.empty() ? "" : fmt::format("\nOff ({}): {}\n", ids.size(), fmt::join(ids, ", "));
}

std::string summary_text(const AccuracySummary& all, const std::vector<AccuracySummary>& families) {
  TextTable table({"family", "rows", "mapped", "exact", "categories", "median", "p95", "worst"},
                  {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
                   Align::kRight, Align::kRight});
  const auto add = [&](const std::string& name, const AccuracySummary& s) {
    const auto error = [&](double value) { return s.mapped == 0 ? "-" : percent(value); };
    table.add({name, std::to_string(s.rows), std::to_string(s.mapped), std::to_string(s.exact),
               s.with_categories == 0 ? "-" : std::to_string(s.equal_categories), error(s.median),
               error(s.p95), error(s.worst)});
  };
  for (const AccuracySummary& s : families) add(s.name, s);
  table.add_rule();
  add("all", all);
  return table.to_text();
}

}  // namespace

Accuracy::Accuracy(std::vector<RowComparison> comparisons) : comparisons_(std::move(comparisons)) {
  std::set<std::string> names;
  for (const RowComparison& c : comparisons_) names.insert(c.family);
  for (const std::string& name : names)
    if (!name.empty()) families_.push_back(summarize(comparisons_, name));
  summary_ = summarize(comparisons_, "");
}

std::string Accuracy::to_text(bool shows_all_phases) const {
  std::string text = rows_text(comparisons_, shows_all_phases);
  text += off_text(comparisons_) + unmapped_text(comparisons_);
  text +=
      "\nPeaks in bytes; a row's error is that of its worst phase; exact: all phases to the byte; "
      "categories: "
      "rows\nwhose breakdown at the peak is equal, of those that have one.\n\n";
  return text + summary_text(summary_, families_);
}

}  // namespace plimsoll
