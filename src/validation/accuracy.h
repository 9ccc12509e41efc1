// The accuracy ledger: how far predictions are from what was measured, over all rows of a file.
//
//   Accuracy accuracy(comparisons);
//   accuracy.summary().exact;
//   std::string text = accuracy.to_text(), json = accuracy.to_json();   // docs/json.md
#pragma once

#include <span>
#include <string>
#include <vector>

#include "validation/validate.h"

namespace plimsoll {

// A row's error is the largest of its phases', relative to what was measured and without sign; a row is exact
// when all its phase peaks are equal to the byte. Errors are over the mapped rows.
struct AccuracySummary {
  std::string name;  // a family; empty: all
  size_t rows = 0, mapped = 0, exact = 0;
  size_t with_categories = 0, equal_categories = 0;
  double median = 0, p95 = 0, worst = 0;
};

class Accuracy {
 public:
  explicit Accuracy(std::vector<RowComparison> comparisons);

  const AccuracySummary& summary() const { return summary_; }
  const std::vector<AccuracySummary>& families() const { return families_; }  // by name

  std::string to_text(bool shows_all_phases) const;
  std::string to_json() const;

 private:
  std::vector<RowComparison> comparisons_;
  AccuracySummary summary_;
  std::vector<AccuracySummary> families_;
};

}  // namespace plimsoll
