// One model chunk's parameters and gradient buffer on the device, as DistributedDataParallel of Megatron-Core
// holds them, and where gradients go in the backward.
#pragma once

#include <unordered_map>
#include <vector>

#include "frameworks/megatron/buffers.h"
#include "program/autograd.h"
#include "program/recorder.h"

namespace plimsoll::megatron {

// The parameters of one data-parallel group, which share their buffers: the experts' are apart.
struct ParameterGroup {
  bool is_expert = false;
  std::vector<size_t> members;  // places among the chunk's parameters
  BufferLayout layout;          // of the members, in their order
  Value parameter_buffer, gradient_buffer;
};

class ChunkState : public GradientSink {
 public:
  ChunkState(Recorder& recorder, const Architecture& architecture, const ResolvedJob& job, const Stage& stage,
             size_t chunk);

  void build();  // the modules' own parameters
  // The buffers, into which they move (the distributed optimizer), or beside which they stay.
  void wrap();

  const std::vector<StageParameter>& parameters() const { return parameters_; }
  // The experts' last; none where the chunk has none.
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  const Value& parameter(size_t i) const { return values_[i]; }
  DType gradient_dtype() const;

  // The parameter's gradient is added to its part of the buffer and let go.
  void accumulate(TensorId parameter, Value gradient) override;
  // A received activation: its gradient is kept.
  void expect_input(const Value& input);
  Value take_input_gradient() { return std::move(input_gradient_); }

 private:
  void group(bool is_expert, bool has_buckets);
  void wrap(ParameterGroup& group);
  const ParameterGroup& group_of(TensorId parameter) const;

  Recorder& r_;
  const ResolvedJob& job_;
  std::vector<StageParameter> parameters_;
  std::vector<ParameterGroup> groups_;
  std::vector<Value> values_;
  std::optional<TensorId> input_;
  Value input_gradient_;
};

DType dtype_of(MegatronPrecision precision);
// Ranks over which one copy of the optimizer's states is divided.
int64_t optimizer_ranks(const ResolvedJob& job, bool is_expert);

}  // namespace plimsoll::megatron
