#include "report/ladder.h"

namespace plimsoll {

const std::vector<Rung>& live_rungs() {
  using C = Category;
  static const std::vector<Rung> rungs = {
      {"parameters", {C::kParameter, C::kMasterParameter}},
      {"gradients", {C::kGradient, C::kAccumulatedGradient}},
      {"optimizer states", {C::kOptimizerState}},
      {"activations", {C::kActivation}},
      {"logits and loss", {C::kLogits}},
      {"gather buffers", {C::kGatherBuffer, C::kUnshardedParameter}},
      {"reduce buffers", {C::kReduceBuffer, C::kCommunicationBucket, C::kUnshardedGradient}},
      {"temporaries", {C::kTemporary}},
      {"buffers, inputs", {C::kBuffer, C::kInput}},
  };
  return rungs;
}

Bytes bytes_of(const Rung& rung, const CategoryBytes& categories) {
  Bytes sum;
  for (Category c : rung.categories) sum += categories[static_cast<size_t>(c)];
  return sum;
}

Bytes workspace_of(const MemoryUse& use) { return use.categories[static_cast<size_t>(Category::kWorkspace)]; }

Bytes slack_of(const MemoryUse& use) { return use.reserved - use.live - workspace_of(use); }

}  // namespace plimsoll
