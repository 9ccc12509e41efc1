// One model chunk's parameters and gradient buffer on the device, as DistributedDataParallel of Megatron-Core
// holds them, and where gradients go in the backward.
#pragma once

#include <unordered_map>
#include <vector>

#include "frameworks/megatron/buffers.h"
#include "program/autograd.h"
#include "program/recorder.h"

namespace plimsoll::megatron {

class ChunkState : public GradientSink {
 public:
  ChunkState(Recorder& recorder, const Architecture& architecture, const ResolvedJob& job, const Stage& stage,
             size_t chunk);

  void build();  // the modules' own parameters
  // The buffers, into which they move (the distributed optimizer), or beside which they stay.
  void wrap();

  const std::vector<StageParameter>& parameters() const { return parameters_; }
  const BufferLayout& layout() const { return layout_; }
  const Value& parameter(size_t i) const { return values_[i]; }
  DType gradient_dtype() const;

  // The parameter's gradient is added to its part of the buffer and let go.
  void accumulate(TensorId parameter, Value gradient) override;
  // A received activation: its gradient is kept.
  void expect_input(const Value& input);
  Value take_input_gradient() { return std::move(input_gradient_); }

 private:
  Recorder& r_;
  const ResolvedJob& job_;
  std::vector<StageParameter> parameters_;
  BufferLayout layout_;
  std::vector<Value> values_;
  Value parameter_buffer_, gradient_buffer_;
  std::optional<TensorId> input_;
  Value input_gradient_;
};

DType dtype_of(MegatronPrecision precision);
// Ranks over which one copy of the optimizer's states is divided, and the traced one's place among them.
int64_t optimizer_ranks(const ResolvedJob& job);

}  // namespace plimsoll::megatron
