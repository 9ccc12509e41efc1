#include <array>
#include <cassert>

#include "program/dims.h"
#include "program/ops.h"

namespace plimsoll::ops {
namespace {

Layout contiguous_like_shape(const Value& x) { return Layout::contiguous(x.layout().shape()); }

const Layout kScalar = Layout::contiguous(SizeList{});

}  // namespace

Value rms_norm(Value x, Value weight, double epsilon) {
  const Layout layout = contiguous_like_shape(x);
  const std::array<Recorder::Result, 2> results{
      {{layout, x.dtype()}, {reduced(layout, dim_mask({-1}, layout.rank), true), DType::kFloat32}}};
  const std::array<Value*, 2> inputs{&x, &weight};
  std::vector<Value> made = x.recorder().emit_many(OpKind::kRmsNorm, inputs, results, ScalarAttr{epsilon});
  return std::move(made[0]);
}

// On CPUs the statistics have the weights' dtype. Source: aten/src/ATen/native/layer_norm.cpp.
Value layer_norm(Value x, Value weight, Value bias, double epsilon) {
  assert(x.layout().is_contiguous());
  Recorder& r = x.recorder();
  const Layout layout = x.layout();
  const Layout per_row = reduced(layout, dim_mask({-1}, layout.rank), true);
  const std::array<Recorder::Result, 3> results{
      {{layout, x.dtype()}, {per_row, x.dtype()}, {per_row, x.dtype()}}};
  const std::array<Value*, 3> inputs{&x, &weight, &bias};
  std::vector<Value> made = r.emit_many(OpKind::kLayerNorm, inputs, results, ScalarAttr{epsilon});
  return std::move(made[0]);
}

Value rotary(Value x, const RotaryTable& table, double sign) {
  Value cos = table.cos, sin = table.sin;
  const Recorder::Result result{contiguous_like_shape(x), x.dtype()};
  return x.recorder().emit(OpKind::kRotary, {&x, &cos, &sin}, result, ScalarAttr{sign});
}

Value swiglu(Value gate, Value up) {
  const Recorder::Result result{contiguous_like_shape(gate), gate.dtype()};
  return gate.recorder().emit(OpKind::kSwiglu, {&gate, &up}, result);
}

Value gelu_tanh(Value x) { return unary(OpKind::kGeluTanh, std::move(x)); }

Value cpu_flash_attention(Value q, Value k, Value v, bool is_causal) {
  const std::array<Recorder::Result, 2> results{
      {{q.layout().like(), q.dtype()},
       {Layout::contiguous({q.size(0), q.size(2), q.size(1)}).transposed(1, 2), DType::kFloat32}}};
  const std::array<Value*, 3> inputs{&q, &k, &v};
  std::vector<Value> made = q.recorder().emit_many(OpKind::kCpuFlashAttention, inputs, results,
                                                   AttentionAttr{.is_causal = is_causal});
  return std::move(made[0]);
}

Value cross_entropy(Value logits, Value labels, double scale) {
  const std::array<Recorder::Result, 2> results{
      {{kScalar, DType::kFloat32}, {Layout::contiguous({logits.size(0)}), DType::kFloat32}}};
  const std::array<Value*, 2> inputs{&logits, &labels};
  std::vector<Value> made =
      logits.recorder().emit_many(OpKind::kCrossEntropy, inputs, results, ScalarAttr{scale});
  return std::move(made[0]);
}

}  // namespace plimsoll::ops
