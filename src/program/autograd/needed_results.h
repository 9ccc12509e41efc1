// Which results within a checkpointed call its backward has a use for, if the rest is computed again: what a
// compiler keeps of those that a policy would have it keep. Source: torch/_functorch/partitioners.py, which
// saves only what the backward graph reads.
#pragma once

#include <vector>

#include "program/autograd/region_index.h"
#include "program/program.h"

namespace plimsoll::autograd {

// For each statement of the call, from `range.begin` on: whether a result of its op is saved for the
// backward, or read to compute what is.
std::vector<bool> needed_results(const Program& forward, const CallRange& range);

}  // namespace plimsoll::autograd
