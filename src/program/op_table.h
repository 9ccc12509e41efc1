// What the planner knows of each op kind: which of its tensors autograd keeps, and how its gradient is
// computed. One row a kind; a kind without a row in a recipe that needs its gradient is an error that names
// it.
//
// Source: tools/autograd/derivatives.yaml of PyTorch (formulas; a formula is evaluated in the alphabetical
// order of the inputs' names, as the code generator sorts them), torch/csrc/autograd/FunctionsManual.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "program/recorder.h"

namespace plimsoll {

// Bit i: input i, output i is kept for the backward. What stands behind the last bit is never kept.
struct Saves {
  uint16_t inputs = 0;
  uint16_t outputs = 0;

  bool keeps_input(uint32_t i) const { return i < 16 && (inputs >> i) & 1U; }
  bool keeps_output(uint32_t i) const { return i < 16 && (outputs >> i) & 1U; }
};

// Which inputs want a gradient is a bit mask, so ops that carry gradients have at most so many inputs.
inline constexpr uint32_t kMaxDifferentiableInputs = 32;
inline bool is_needed(uint32_t needed, size_t i) {
  return i < kMaxDifferentiableInputs && (needed >> i) & 1U;
}

// What a backward rule sees: the forward op, the gradients of its outputs, and what was kept.
class BackwardCall {
 public:
  BackwardCall(Recorder& recorder, const Program& forward, const Op& op, std::vector<Value>& gradients)
      : recorder(recorder), forward(forward), op(op), gradients_(gradients), results(op.input_count) {}

  Recorder& recorder;
  const Program& forward;
  const Op& op;

  const Value& gradient(size_t output = 0) const { return gradients_[output]; }
  size_t gradient_count() const { return gradients_.size(); }
  const Value& input(size_t i) const { return saved_inputs[i]; }
  const Value& output(size_t i) const { return saved_outputs[i]; }
  const TensorInfo& input_info(size_t i) const { return forward.tensor(forward.inputs(op)[i]); }
  const TensorInfo& output_info(size_t i) const { return forward.tensor(forward.outputs(op)[i]); }
  template <typename T>
  const T& attributes() const {
    return std::get<T>(forward.attributes_of(op));
  }
  bool needs(size_t i) const { return i < op.input_count && is_needed(needed, i); }

  uint32_t needed = 0;  // bit i: input i wants a gradient
  std::vector<Value> saved_inputs, saved_outputs;

 private:
  std::vector<Value>& gradients_;

 public:
  std::vector<Value> results;  // gradients of the inputs; undefined ones are none
};

using SaveRule = Saves (*)(const Program& forward, const Op& op, uint32_t needed);
using BackwardRule = void (*)(BackwardCall& call);

struct OpRow {
  bool is_differentiable = false;
  SaveRule saves = nullptr;  // nullptr: keeps nothing
  BackwardRule backward = nullptr;
  uint16_t outputs_for_gradient = 0;  // bit i: output i is empty where no gradient is wanted
};

const OpRow& op_row(OpKind kind);

}  // namespace plimsoll
