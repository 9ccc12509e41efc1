// Live memory over a phase as a small plot of text.
//
//   44.1 GiB |            ##
//            |          ######
//    0.0 GiB |__________________
//             fwd2     |bwd2   |
#pragma once

#include <string>

#include "estimate/estimate.h"
#include "report/plot.h"

namespace plimsoll {

// Of the program's phases first .. last (indices into run.timeline.phases). A column is a stretch of events
// and shows the highest value in it; there is no time yet. REQUIRES run.timeline.events kept, first <= last.
std::string memory_curve(const EstimateRun& run, uint32_t first_phase, uint32_t last_phase,
                         PlotSize size = {});

}  // namespace plimsoll
