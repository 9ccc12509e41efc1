// The checklist for a job that needs too much memory: which changes apply to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

// What a change costs, cheapest first.
enum class Price {
  kNothing,
  kOtherKernel,
  kSomeCompute,
  kMoreCompute,
  kTogether,
  kSlower,
  kMoreHardware,
  kOtherTraining
};

struct Candidate {
  std::vector<std::string> settings;  // as --set takes them
  std::string price;                  // what is lost by it
  Price rank = Price::kNothing;
  Bytes aim;                      // of the peak: what it works on. Those with much are tried first
  bool is_combination = false;    // of others in the list
  bool has_same_program = false;  // only the allocator is another one
};

// In the order of the checklist: sequence length, micro-batch, recompute, sharding, attention, logits,
// optimizer, allocator.
std::vector<Candidate> candidates_for(const Estimate& estimate);

// Those together that leave hardware and training as they are, when there are several: a peak has several
// hills, and what lowers one alone may save nothing.
std::optional<Candidate> combination_of(const std::vector<Candidate>& candidates);

}  // namespace plimsoll
