// Predicts what a reference row measured and compares: every phase peak, and the categories at the training
// peak.
#pragma once

#include <functional>
#include <vector>

#include "program/program.h"
#include "validation/reference_row.h"

namespace plimsoll {

struct PhaseComparison {
  std::string phase;
  int64_t measured = 0, predicted = 0;  // bytes
  double relative_error() const;
};
struct RowComparison {
  const ReferenceRow* row = nullptr;
  std::string family;
  std::string unmapped;                                           // the reason; empty: mapped
  std::vector<PhaseComparison> phases;                            // in the order in which they run
  std::map<std::string, std::pair<int64_t, int64_t>> categories;  // measured, predicted
  bool is_mapped() const { return unmapped.empty(); }
  bool is_exact() const;  // all phase peaks equal to the byte
  bool has_categories() const { return is_mapped() && !categories.empty(); }
  bool has_equal_categories() const;  // false without categories
  double worst_error() const;         // largest relative error of its phases, without sign
};

RowComparison compare(const ReferenceRow& row);
// The complete program of a row's job, and its resolved form.
Result<Program> program_of(const ReferenceRow& row);

// All rows, `threads` at a time; the comparisons are in the rows' order. `on_done(n)` is told how many are
// done, from any thread, one call at a time.
std::vector<RowComparison> compare_all(const std::vector<ReferenceRow>& rows, int threads,
                                       const std::function<void(size_t)>& on_done);

}  // namespace plimsoll
