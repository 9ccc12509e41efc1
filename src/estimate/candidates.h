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
  bool is_last_resort = false;    // no change of its own: with others, when nothing else cures
};

// What the checklist must know of the job's program.
struct ProgramFacts {
  bool has_flash_attention = true;  // no call of sdpa falls back to matrix products or the slower kernel
};
ProgramFacts facts_of(const Program& program);

// In the order of the checklist: sequence length, micro-batch, recompute, sharding, attention, logits,
// optimizer, allocator.
std::vector<Candidate> candidates_for(const Estimate& estimate, const ProgramFacts& facts = {});

// The field that a setting sets: "recompute.mode".
std::string field_of(const std::string& setting);
bool have_common_field(const Candidate& a, const Candidate& b);

// What is lost by all of them: "a; b".
std::string joined_prices(const std::vector<std::string>& prices);

// Those together that leave hardware and training as they are, when there are several: a peak has several
// hills, and what lowers one alone may save nothing.
std::optional<Candidate> combination_of(const std::vector<Candidate>& candidates);

}  // namespace plimsoll
