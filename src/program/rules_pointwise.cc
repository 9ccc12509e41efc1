#include "program/backward_rules.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

using ops::binary;
using ops::with_scalar;

// Formulas are C++ expressions: their temporaries live to the end of the whole expression, so here they have
// names.
double scalar_of(const BackwardCall& call) { return call.attributes<ScalarAttr>().value; }

void sub(BackwardCall& call) {
  if (call.needs(1)) call.results[1] = ops::neg(call.gradient());
  if (call.needs(0)) call.results[0] = call.gradient();
}
// In place on a view autograd wraps the rule in CopySlices: the gradient is copied into a tensor like the
// view's base, and cloned for the rule. Source: torch/csrc/autograd/functions/tensor.cpp.
void add_in_place(BackwardCall& call) {
  const TensorInfo& self = call.input_info(0);
  if (!self.is_view) return passes_on(call);
  const Bytes base = call.forward.storage(self.storage).bytes;
  const int64_t elements = base.value / bytes_of(self.dtype);
  const bool is_whole = elements == self.layout.elements();
  const Layout layout = is_whole ? self.layout : Layout::contiguous({elements});
  Value whole = ops::empty(call.recorder, layout, call.gradient().dtype());
  whole = ops::copy_(std::move(whole), call.gradient());
  Value part = ops::clone(is_whole ? whole : call.gradient());
  if (call.needs(1)) call.results[1] = std::move(part);
  if (!call.needs(0)) return;
  if (is_whole)
    call.results[0] = std::move(whole);
  else
    call.results[0] = call.gradient();
}
void negate(BackwardCall& call) { call.results[0] = ops::neg(call.gradient()); }

// grad * other.conj(): the conjugate of a complex tensor is lazy, and made before it is multiplied.
Value times_conjugate(const Value& gradient, const Value& other) {
  return ops::mul(gradient, other.dtype() == DType::kComplex64 ? ops::clone(other) : other);
}
void mul(BackwardCall& call) {
  if (call.needs(1)) call.results[1] = times_conjugate(call.gradient(), call.input(0));
  if (call.needs(0)) call.results[0] = times_conjugate(call.gradient(), call.input(1));
}
void scale(BackwardCall& call) {
  call.results[0] = with_scalar(OpKind::kScale, call.gradient(), scalar_of(call));
}
void mul_scalar(BackwardCall& call) { call.results[0] = ops::mul(call.gradient(), scalar_of(call)); }

Saves keeps_for_div(const Program&, const Op&, const InputSet& needed) {
  return {.inputs = static_cast<uint16_t>(2U | (needed.contains(1) ? 1U : 0U))};
}
void div_by(BackwardCall& call, size_t self) {
  if (call.needs(1)) {  // -grad * ((self / other) / other)
    const Value quotient = ops::div(call.input(self), call.input(1));
    const Value twice = ops::div(quotient, call.input(1));
    const Value negated = ops::neg(call.gradient());
    call.results[1] = ops::mul(negated, twice);
  }
  if (call.needs(0)) call.results[0] = ops::div(call.gradient(), call.input(1));
}
void div(BackwardCall& call) { div_by(call, 0); }

// Inputs: self, other, and self as it was where other wants a gradient.
Saves keeps_for_div_in_place(const Program&, const Op&, const InputSet& needed) {
  return {.inputs = static_cast<uint16_t>(2U | (needed.contains(1) ? 4U : 0U))};
}
void div_in_place(BackwardCall& call) { div_by(call, 2); }
void div_scalar(BackwardCall& call) { call.results[0] = ops::div(call.gradient(), scalar_of(call)); }

// grad * (exponent * self.pow(exponent - 1)); temporaries live to the end of the expression
void pow(BackwardCall& call) {
  const double exponent = scalar_of(call);
  const Value power = ops::pow(call.input(0), exponent - 1);
  const Value slope = with_scalar(OpKind::kScale, power, exponent);
  call.results[0] = ops::mul(call.gradient(), slope);
}

void rsqrt(BackwardCall& call) {  // -0.5 * grad * result.pow(3)
  Value cube = ops::pow(call.output(0), 3);
  Value half = with_scalar(OpKind::kScale, call.gradient(), -0.5);
  call.results[0] = ops::mul(std::move(half), std::move(cube));
}
void sqrt(BackwardCall& call) {  // grad / (2 * result)
  call.results[0] = ops::div(call.gradient(), with_scalar(OpKind::kScale, call.output(0), 2));
}
void exp(BackwardCall& call) { call.results[0] = ops::mul(call.gradient(), call.output(0)); }
void reciprocal(BackwardCall& call) {  // -grad * (result * result)
  Value square = ops::mul(call.output(0), call.output(0));
  call.results[0] = ops::mul(ops::neg(call.gradient()), std::move(square));
}

template <OpKind kKind>
void from_input(BackwardCall& call) {
  call.results[0] = binary(kKind, call.gradient(), call.input(0));
}
template <OpKind kKind>
void from_output(BackwardCall& call) {
  call.results[0] = binary(kKind, call.gradient(), call.output(0));
}

Saves keeps_condition(const Program&, const Op&, const InputSet&) { return {.inputs = 1}; }
void where(BackwardCall& call) {  // inputs: condition, self, other
  const auto masked = [&](bool selects) {
    Value zero = ops::scalar_tensor(call.recorder, call.gradient().dtype());
    return selects ? ops::where(call.input(0), call.gradient(), std::move(zero))
                   : ops::where(call.input(0), std::move(zero), call.gradient());
  };
  if (call.needs(2)) call.results[2] = masked(false);
  if (call.needs(1)) call.results[1] = masked(true);
}

Saves keeps_mask(const Program&, const Op&, const InputSet&) { return {.inputs = 2}; }
void masked_fill(BackwardCall& call) { call.results[0] = ops::masked_fill(call.gradient(), call.input(1)); }

// where(self >= min && self <= max, grad, 0)
void clamp(BackwardCall& call, int bounds) {
  Value zero = ops::scalar_tensor(call.recorder, call.gradient().dtype());
  Value inside = ops::compare(call.input(0)), below;
  if (bounds == 2) {
    below = ops::compare(call.input(0));
    inside = ops::logical_and_(std::move(inside), below);
  }
  call.results[0] = ops::where(std::move(inside), call.gradient(), std::move(zero));
}
void clamp_one(BackwardCall& call) { clamp(call, 1); }
void clamp_between(BackwardCall& call) { clamp(call, 2); }

void mul_in_place(BackwardCall& call) { mul_scalar(call); }

Saves keeps_dropout_mask(const Program&, const Op&, const InputSet&) { return {.outputs = 2}; }
void dropout(BackwardCall& call) {
  Value gradient = call.gradient();
  Value mask = call.output(1);
  call.results[0] = binary(OpKind::kDropoutBackward, std::move(gradient), std::move(mask));
}

// bloom_gelu_back: tanh_out = tanh(0.79788456 * x * (1 + 0.044715 * x * x));
// ff = 0.5 * x * ((1 - tanh_out * tanh_out) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + tanh_out)
Saves keeps_function_input(const Program&, const Op&, const InputSet&) { return {.inputs = 2}; }
void gelu_function(BackwardCall& call) {
  const Value x = call.input(1);
  Value scaled = ops::mul(x, 0.79788456);
  Value inner = ops::add(ops::mul(ops::mul(x, 0.044715), x), 1.0);
  inner = ops::mul(std::move(scaled), std::move(inner));
  const Value tanh = ops::tanh(std::move(inner));
  Value half = ops::mul(x, 0.5);
  Value rest = with_scalar(OpKind::kRsub, ops::mul(tanh, tanh), 1);
  Value slope = ops::add(ops::mul(ops::mul(x, 0.1070322243), x), 0.79788456);
  slope = ops::mul(std::move(rest), std::move(slope));
  Value left = ops::mul(std::move(half), std::move(slope));
  const Value factor = ops::add(std::move(left), ops::mul(ops::add(tanh, 1.0), 0.5));
  call.results[1] = ops::mul(factor, call.gradient());
}

}  // namespace

void add_pointwise_rows(const SetRow& set) {
  set(OpKind::kAdd, {.backward = passes_on});
  set(OpKind::kAddScalar, {.backward = passes_on});
  set(OpKind::kAddInPlace, {.backward = add_in_place});
  set(OpKind::kSub, {.backward = sub});
  set(OpKind::kRsub, {.backward = negate});
  set(OpKind::kMul, {.saves = keeps_other_operand, .backward = mul});
  set(OpKind::kScale, {.backward = scale});
  set(OpKind::kMulScalar, {.backward = mul_scalar});
  set(OpKind::kMulInPlace, {.backward = mul_in_place});
  set(OpKind::kDiv, {.saves = keeps_for_div, .backward = div});
  set(OpKind::kDivInPlace, {.saves = keeps_for_div_in_place, .backward = div_in_place});
  set(OpKind::kDivScalar, {.backward = div_scalar});
  set(OpKind::kDivScalarInPlace, {.backward = div_scalar});
  set(OpKind::kNeg, {.backward = negate});
  set(OpKind::kPow, {.saves = keeps_input, .backward = pow});
  set(OpKind::kRsqrt, {.saves = keeps_output, .backward = rsqrt});
  set(OpKind::kSqrt, {.saves = keeps_output, .backward = sqrt});
  set(OpKind::kExp, {.saves = keeps_output, .backward = exp});
  set(OpKind::kReciprocal, {.saves = keeps_output, .backward = reciprocal});
  set(OpKind::kTanh, {.saves = keeps_output, .backward = from_output<OpKind::kTanhBackward>});
  set(OpKind::kSigmoid, {.saves = keeps_output, .backward = from_output<OpKind::kSigmoidBackward>});
  set(OpKind::kRelu, {.saves = keeps_output, .backward = from_output<OpKind::kThresholdBackward>});
  set(OpKind::kSilu, {.saves = keeps_input, .backward = from_input<OpKind::kSiluBackward>});
  set(OpKind::kGelu, {.saves = keeps_input, .backward = from_input<OpKind::kGeluBackward>});
  set(OpKind::kWhere, {.saves = keeps_condition, .backward = where});
  set(OpKind::kMaskedFill, {.saves = keeps_mask, .backward = masked_fill});
  set(OpKind::kMaskedFillInPlace, {.saves = keeps_mask, .backward = masked_fill});
  set(OpKind::kClamp, {.saves = keeps_input, .backward = clamp_one});
  set(OpKind::kClampBetween, {.saves = keeps_input, .backward = clamp_between});
  set(OpKind::kGeluFunction, {.saves = keeps_function_input, .backward = gelu_function});
  set(OpKind::kDropout, {.saves = keeps_dropout_mask, .backward = dropout});
}

}  // namespace plimsoll
