// What the planner knows of each op kind: which of its tensors autograd keeps, and how its gradient is
// computed. One row a kind; a kind without a row in a recipe that needs its gradient is an error that names
// it.
//
// Source: tools/autograd/derivatives.yaml of PyTorch (formulas; a formula is evaluated in the alphabetical
// order of the inputs' names, as the code generator sorts them), torch/csrc/autograd/FunctionsManual.cpp.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <vector>

#include "program/recorder.h"

namespace plimsoll {

// Some of an op's inputs. A join of the parts of a model may have hundreds of them.
class InputSet {
 public:
  void add(size_t i) {
    if (i < kFirst) {
      first_ |= uint64_t{1} << i;
    } else {
      rest_.resize(std::max(rest_.size(), i - kFirst + 1));
      rest_[i - kFirst] = true;
    }
  }
  bool contains(size_t i) const {
    return i < kFirst ? (first_ >> i) & 1U : i - kFirst < rest_.size() && rest_[i - kFirst];
  }
  bool is_empty() const { return first_ == 0 && rest_.empty(); }

 private:
  static constexpr size_t kFirst = 64;
  uint64_t first_ = 0;      // bit i: input i
  std::vector<bool> rest_;  // the inputs behind
};

// Bit i: input i, output i is kept for the backward. Ops that keep something have few tensors; of those with
// any number of them (cat, stack, split, unbind) nothing is kept.
struct Saves {
  static constexpr uint32_t kMost = 16;
  uint16_t inputs = 0;
  uint16_t outputs = 0;

  // The mask of the first `count` tensors. REQUIRES at most kMost.
  static uint16_t first(uint32_t count) {
    assert(count <= kMost && "an op keeps more tensors than the mask has bits");
    return static_cast<uint16_t>((uint32_t{1} << count) - 1);
  }
  bool keeps_input(uint32_t i) const { return i < kMost && (inputs >> i) & 1U; }
  bool keeps_output(uint32_t i) const { return i < kMost && (outputs >> i) & 1U; }
};

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
  bool needs(size_t i) const { return needed.contains(i); }
  // Lets go of a kept tensor within the rule, as functions that clear it before they return.
  void clear_input(size_t i) { clear(false, i); }
  void clear_output(size_t i) { clear(true, i); }
  std::function<void(bool is_output, size_t i)> clear = [](bool, size_t) {};

  InputSet needed;  // which want a gradient
  std::vector<Value> saved_inputs, saved_outputs;

 private:
  std::vector<Value>& gradients_;

 public:
  std::vector<Value> results;  // gradients of the inputs; undefined ones are none
};

using SaveRule = Saves (*)(const Program& forward, const Op& op, const InputSet& needed);
using BackwardRule = void (*)(BackwardCall& call);

struct OpRow {
  bool is_differentiable = false;
  SaveRule saves = nullptr;  // nullptr: keeps nothing
  BackwardRule backward = nullptr;
  uint16_t outputs_for_gradient = 0;  // bit i: output i is empty where no gradient is wanted
  // A torch.autograd.Function: the gradients it was given are let go when its backward returns, before the
  // engine fits its results to the inputs. Source: PyNode::apply, torch/csrc/autograd/python_function.cpp.
  bool is_python_function = false;

  bool is_for_gradient(size_t output) const {
    return output < Saves::kMost && (outputs_for_gradient >> output) & 1U;
  }
};

const OpRow& op_row(OpKind kind);

}  // namespace plimsoll
