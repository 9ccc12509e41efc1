// From a run's timeline, which has the program's own phases ("fwd1.2", "bwd2", "step1" ...), to the phases
// that a user knows.
#pragma once

#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

// "fwd1.2" -> kFirstStep; "eval" -> kEvaluation.
PhaseKind phase_kind_of(std::string_view timeline_phase);

// REQUIRES timeline.events kept and `shown` from shown_categories().
std::vector<PhaseEstimate> phases_of(const Program& program, const MemoryTimeline& timeline,
                                     const std::vector<Category>& shown, const DeviceParts& outside);

// One of the timeline's own phases, "bwd2"; empty when there is none of that name. The same REQUIRES.
std::optional<PhaseEstimate> part_named(std::string_view name, const Program& program,
                                        const MemoryTimeline& timeline, const std::vector<Category>& shown,
                                        const DeviceParts& outside);

// What there is while a checkpoint is written: nothing new on the GPU.
PhaseEstimate save_phase(const Program& program, const MemoryTimeline& timeline,
                         const std::vector<Category>& shown, const DeviceParts& outside, Bytes staging);

}  // namespace plimsoll
