// What a run's memory consists of at each phase's peak, by category.
//
//   std::vector<CategoryBytes> at_peaks = categories_at_peaks(program, timeline);
//   at_peaks[2][static_cast<size_t>(Category::kActivation)];   // of timeline.phases[2]
//
// Programs don't tell activations and temporaries apart, since that depends on who holds them: a storage made
// in a forward is an activation when it outlives the forward, everything else that has no category of its own
// is a temporary.
#pragma once

#include <array>
#include <vector>

#include "simulator/simulator.h"

namespace plimsoll {

using CategoryBytes = std::array<Bytes, kCategoryCount>;  // each storage rounded up to 512 bytes

// By event; that of a free is its allocation's. REQUIRES timeline.events kept.
std::vector<Category> shown_categories(const Program& program, const MemoryTimeline& timeline);

// By phase; of storages on the GPU. The sum is the phase's live_peak. REQUIRES timeline.events kept.
std::vector<CategoryBytes> categories_at_peaks(const Program& program, const MemoryTimeline& timeline,
                                               const std::vector<Category>& shown);

}  // namespace plimsoll
