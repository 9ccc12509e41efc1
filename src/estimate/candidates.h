// The checklist for a job that needs too much memory: which changes apply to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

// What a change costs, cheapest first. Up to kSlower the GPUs stay and so does what is trained.
enum class Price {
  kNothing,
  kSomeCompute,
  kOtherKernel,  // another package
  kMoreCompute,
  kSlower,           // communication, copies
  kOtherOptimizer,   // approximates
  kShorterSequence,  // other data
  kMoreHardware
};

enum class Role {
  kRow,      // of the table
  kStep,     // goes further on the way of a row: for the cure only
  kAddition  // means something with others only
};

// Candidates whose first settings are of the same field are steps of one way, the weakest first.
struct Candidate {
  std::vector<std::string> settings;  // as --set takes them
  std::string price;                  // what is lost by it
  Price rank = Price::kNothing;
  Bytes aim;  // of the peak: what it works on. Those with much are tried first
  Role role = Role::kRow;
  bool is_combination = false;    // of others in the list
  bool has_same_program = false;  // only the allocator is another one
  bool takes_from_host = false;   // a rank holds less host memory
};

// What the checklist must know of the job's program and model.
struct JobFacts {
  bool has_flash_attention = true;  // no call of sdpa falls back to matrix products or the slower kernel
  // Of FSDP2: fewest copies of the shards with which padding takes less and a rank holds no more than now.
  std::optional<int64_t> even_replicas;
};
JobFacts facts_of(const Program& program, const Architecture& architecture, const ResolvedJob& job);

// In the order of the checklist: sequence length, micro-batch, recompute, sharding, attention, logits,
// optimizer, allocator.
std::vector<Candidate> candidates_for(const Estimate& estimate, const JobFacts& facts = {});

// The field that a setting sets: "recompute.mode".
std::string field_of(const std::string& setting);
bool have_common_field(const Candidate& a, const Candidate& b);

// All settings of several, and what they cost together: "a; b". What costs nothing isn't said.
Candidate merged(const std::vector<const Candidate*>& parts);

// Those of the table together that leave hardware and training as they are, with no more communication than
// now; a peak has several hills, and what lowers one alone may save nothing. Of two values for one field the
// first stays: logits in pieces before another kernel for them. Empty unless there are several.
std::vector<size_t> combinable(const std::vector<Candidate>& candidates);

}  // namespace plimsoll
