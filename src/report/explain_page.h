// What `plimsoll explain` prints of one phase: the memory curve, and who is alive at the peak.
#pragma once

#include <string>

#include "estimate/estimate.h"

namespace plimsoll {

struct ExplainOptions {
  size_t most_lines = 40;  // holders beyond that are summed up
};

std::string explain_page(const EstimateRun& run, const PhaseEstimate& phase,
                         const ExplainOptions& options = {});
std::string explain_json(const EstimateRun& run, const PhaseEstimate& phase);

}  // namespace plimsoll
