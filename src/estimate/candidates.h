// The checklist for a job that needs too much memory: which changes apply to it.
#pragma once

#include <string>
#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

struct Candidate {
  std::vector<std::string> settings;  // as --set takes them
  std::string price;
  int rank = 0;      // cheap ones first: what is lost by it
  int priority = 0;  // what is tried first when not all can be
};

// In the order of the checklist: sequence length, micro-batch, recompute, sharding, attention, logits,
// optimizer, allocator.
std::vector<Candidate> candidates_for(const Estimate& estimate);

}  // namespace plimsoll
