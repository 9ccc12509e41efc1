// The cheapest way to make a job fit: one change of the checklist, or several together.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "estimate/candidates.h"
#include "estimate/improvements.h"

namespace plimsoll {

struct Tried {
  Candidate candidate;
  std::optional<Change> change;  // empty: not estimated alone
};

struct CureSearch {
  Verdict now;               // of the job as it is
  Bytes device_limit;        // Estimate::device_limit()
  std::vector<Tried> tried;  // in the order of the checklist, steps of one way from the weakest on
  std::function<bool(const Candidate&)> is_possible;
  // Of each candidate; empty: it can't be estimated, or no more are. May work on several at a time.
  std::function<std::vector<std::optional<Change>>(const std::vector<Candidate>&)> estimate;
};

// Looks for a change that fits before one that is at risk, which helps only a job that runs out of memory.
// For each it goes through circles of changes, in this order:
//   1. the same training on the same GPUs, with more computing at most (up to Price::kMoreCompute);
//   2. slower too (communication, offload);
//   3. another optimizer too;
//   4. shorter sequences too;
//   5. those of 2 on more GPUs;
//   6. all of them.
// In each circle single changes go first, cheapest first, then several. Of several, no more than it takes:
// dear ones are left out first, then steps of a way are taken back. Every answer was estimated.
// Does not try every subset: more changes are taken to need no more memory, but for one that may hurt in the
// company of others.
std::optional<Change> find_cure(const CureSearch& search);

}  // namespace plimsoll
