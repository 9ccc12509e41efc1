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
  std::vector<Tried> tried;  // in the order of the checklist
  std::function<bool(const Candidate&)> is_possible;
  // Of each candidate; empty: it can't be estimated. May work on several at a time.
  std::function<std::vector<std::optional<Change>>(const std::vector<Candidate>&)> estimate;
};

// Looks for a change that fits before one that is at risk, which helps only a job that runs out of memory.
// For each: single changes that leave hardware and training as they are, cheapest first; several of them; any
// single change; any changes together, last resorts too. Of several, no more than it takes in the order of
// their price; a field has one value, of two the one that saves more.
// Does not try every subset: whether fewer changes of a longer list would do is not known.
std::optional<Change> find_cure(const CureSearch& search);

}  // namespace plimsoll
