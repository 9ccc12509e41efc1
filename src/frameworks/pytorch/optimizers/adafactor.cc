// Transformers' Adafactor with an explicit learning rate (scale_parameter=False, relative_step=False) and no
// first moment: one tensor at a time, in fp32. Source: Adafactor in transformers/optimization.py, whose
// locals live from one parameter to the next until they are bound again.
#include "frameworks/pytorch/optimizers/optimizer.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

struct State {
  Value row, column;  // fp32 means of the squares over the last dim and over the one before it
  Value square;       // of vectors, which are not factored
  Value rms;          // of the parameter
};

Value rms(const Value& x) { return ops::div(norm(x), 1.0); }

class Adafactor : public OptimizerRecipe {
 public:
  explicit Adafactor(const OptimizerContext& context)
      : r_(context.recorder), lists_states_(context.lists_states) {}

  void step(const std::vector<TrainedTensor>& tensors) override {
    states_.resize(tensors.size());
    Locals locals;
    for (size_t i = 0; i < tensors.size(); ++i) one_step(tensors[i], states_[i], locals);
    replaced_.clear();
  }

 private:
  struct Locals {
    Value gradient, parameter, change;  // grad, p_data_fp32, update
  };

  void one_step(const TrainedTensor& t, State& state, Locals& locals) {
    const bool is_factored = t.parameter.rank() >= 2;
    locals.gradient = t.gradient;
    locals.gradient = ops::cast(locals.gradient, DType::kFloat32);
    if (!state.rms) make_moments(t.parameter, is_factored, state);
    locals.parameter = t.parameter;
    locals.parameter = ops::cast(locals.parameter, DType::kFloat32);
    keep_rms(t.parameter, locals.parameter, state);
    locals.change = ops::add(ops::pow(locals.gradient, 2), 1e-30);
    if (is_factored) {
      add_mean(state.row, locals.change, -1);
      add_mean(state.column, locals.change, -2);
      locals.change = approximate(state);
    } else {
      update(state.square, {&locals.change});
      locals.change = ops::unary(OpKind::kRsqrt, state.square);
    }
    update(locals.change, {&locals.gradient});
    clip(locals.change);
    apply(t, locals);
  }

  // The means are made on the host and copied.
  void make_moments(const Value& parameter, bool is_factored, State& state) {
    if (!is_factored) {
      state.square = zeros_state(parameter, DType::kFloat32);
      return;
    }
    const StateScope kept(parameter);
    const auto mean_over = [&](int dim) {
      return ops::empty(r_, Layout::contiguous(parameter.layout().selected(dim).shape()), DType::kFloat32);
    };
    state.row = mean_over(-1);
    state.column = mean_over(-2);
  }

  void keep_rms(const Value& parameter, const Value& in_fp32, State& state) {
    Value length = norm(in_fp32);
    if (lists_states_) replaced_.push_back(state.rms);
    const StateScope kept(parameter);
    state.rms = ops::div(std::move(length), 1.0);
  }

  static void add_mean(const Value& moment, const Value& squares, int dim) {
    const Value mean = ops::mean(squares, {dim}, false);
    update(moment, {&mean});
  }

  // _approx_sq_grad
  static Value approximate(const State& state) {
    Value row = ops::div(state.row, ops::mean(state.row, {-1}, true));
    row = ops::unsqueeze(std::move(row), -1);
    const Value column = ops::unary(OpKind::kRsqrt, ops::unsqueeze(state.column, -2));
    return ops::mul(row, column);
  }

  static void clip(const Value& change) {
    const Value limit = ops::div(rms(change), 1.0);
    update(change, {&limit});
  }

  static void apply(const TrainedTensor& t, const Locals& locals) {
    {
      const Value negative = ops::neg(locals.change);
      update(locals.parameter, {&negative});
    }
    if (is_half(t.parameter.dtype())) update(t.parameter, {&locals.parameter});
  }

  Recorder& r_;
  bool lists_states_;
  std::vector<State> states_;
  std::vector<Value> replaced_;
};

}  // namespace

std::unique_ptr<OptimizerRecipe> make_adafactor(const OptimizerContext& context) {
  return std::make_unique<Adafactor>(context);
}

}  // namespace plimsoll::pytorch
