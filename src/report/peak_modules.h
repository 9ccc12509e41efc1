// What is alive at a phase's peak by module: of each storage the module whose op allocated it, as the stacks
// of a simulated snapshot name it (trace/simulated_stack.h), with the numbers of layers left open.
//
//   modules_at_peak(run, phase.use)[0];   // {"model.layers.{}.mlp.down_proj", Category::kActivation, ...}
#pragma once

#include <string>
#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

struct ModuleMemory {
  std::string module;  // empty: the model itself
  Category category = Category::kActivation;
  Bytes bytes;  // each storage rounded up to 512
  int64_t storages = 0;
};

// Largest first; their sum is use.live. REQUIRES run.timeline.events kept.
std::vector<ModuleMemory> modules_at_peak(const EstimateRun& run, const MemoryUse& use);

}  // namespace plimsoll
