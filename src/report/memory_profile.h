// The profiles that `compare` sets side by side: of a snapshot, and of what `estimate --json` printed.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "replay/analysis.h"
#include "report/compare_page.h"

namespace plimsoll {

MemoryProfile profile_of(const std::string& name, const AllocationTrace& trace,
                         const SnapshotAnalysis& analysis);
// Of the phase with the highest allocated peak. Errors: text that is no plimsoll.estimate/1.
Result<MemoryProfile> profile_of_estimate(const std::string& name, std::string_view json);
// Whether the text may be what `estimate --json` prints.
bool sniff_estimate_json(std::string_view first_bytes);

}  // namespace plimsoll
