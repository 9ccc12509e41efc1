// Notes between which statements of the complete program each block's forward and backward stand, while other
// hooks do their work around them. What those write before a forward or a backward, or after one, is outside.
#pragma once

#include <vector>

#include "program/autograd.h"
#include "program/passes/offload_activations.h"

namespace plimsoll::native {

class SpanRecorder final : public UnitHooks {
 public:
  // REQUIRES that what it refers to outlives it. Of one micro-batch.
  SpanRecorder(const Program& program, const Program& forward, UnitHooks& inner)
      : program_(program), inner_(inner), block_of_region_(forward.regions.size()) {
    for (size_t i = 0; i < forward.regions.size(); ++i) {
      if (forward.regions[i].kind != RegionKind::kBlock) continue;
      block_of_region_[i] = spans_.size();
      spans_.emplace_back();
    }
  }

  void before_forward(RegionId region) override {
    inner_.before_forward(region);
    note(region, &BlockSpans::forward_begin);
  }
  void after_forward(RegionId region) override {
    note(region, &BlockSpans::forward_end);
    inner_.after_forward(region);
  }
  void before_backward(RegionId region) override {
    inner_.before_backward(region);
    note(region, &BlockSpans::backward_begin);
  }
  void after_backward(RegionId region) override {
    note(region, &BlockSpans::backward_end);
    inner_.after_backward(region);
  }
  void at_backward_end() override { inner_.at_backward_end(); }

  const std::vector<BlockSpans>& spans() const { return spans_; }

 private:
  void note(RegionId region, uint32_t BlockSpans::*place) {
    if (const auto block = block_of_region_[region.value])
      spans_[*block].*place = static_cast<uint32_t>(program_.statements.size());
  }

  const Program& program_;
  UnitHooks& inner_;
  std::vector<std::optional<size_t>> block_of_region_;
  std::vector<BlockSpans> spans_;  // of the blocks, in the order of the forward
};

}  // namespace plimsoll::native
