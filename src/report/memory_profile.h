// The profiles that `compare` sets side by side: of a snapshot, and of what `estimate --json` printed.
#pragma once

#include <string>

#include "replay/analysis.h"
#include "report/compare_page.h"
#include "trace/estimated_memory.h"

namespace plimsoll {

MemoryProfile profile_of(const std::string& name, const AllocationTrace& trace,
                         const SnapshotAnalysis& analysis);
// Of the phase with the highest allocated peak, the first of them. REQUIRES there is a phase.
MemoryProfile profile_of_estimate(const std::string& name, const EstimatedMemory& estimate);

}  // namespace plimsoll
