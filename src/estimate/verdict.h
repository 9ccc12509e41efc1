// Fits, at risk (and what would break it), or out of memory (and where).
#pragma once

#include "estimate/estimate.h"

namespace plimsoll {

// Of an estimate that is complete but for its verdict. `limited`: the run within the GPU's memory.
Verdict judge(const Estimate& estimate, const Program& program, const MemoryTimeline& limited);

}  // namespace plimsoll
