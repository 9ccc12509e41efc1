#include "program/ops_megatron.h"

#include <array>

#include "program/dims.h"

namespace plimsoll::megatron {
namespace {

using ops::SizeList;

Layout contiguous_like_shape(const Value& x) { return Layout::contiguous(x.layout().shape()); }

// x's shape with another last dim.
Layout with_last(const Value& x, int64_t last) {
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
  sizes.back() = last;
  return Layout::contiguous(sizes);
}
// x's shape with another first dim.
Layout with_first(const Value& x, int64_t first) {
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
  sizes.front() = first;
  return Layout::contiguous(sizes);
}
Layout rows_of(const Value& x) { return Layout::contiguous({x.layout().elements() / x.size(-1)}); }

FusedAttr attributes_of(const Value& bias, const LinearOptions& options) {
  return {.has_bias = bias.is_defined(),
          .sums_input_gradient = options.sums_input_gradient,
          .adds_weight_gradient = options.dummy_gradient.is_defined(),
          .input_ranks = options.input_ranks,
          .result_ranks = options.result_ranks};
}

struct TeNormed {
  Value result, mean, deviation;
};
// The statistics are made before the result.
TeNormed normed(Value x, Value weight, Value bias, const FusedAttr& attributes) {
  Recorder& r = x.recorder();
  const bool has_mean = bias.is_defined();
  std::vector<Recorder::Result> results;
  for (int i = 0; i < (has_mean ? 2 : 1); ++i) results.push_back({rows_of(x), DType::kFloat32});
  results.push_back({contiguous_like_shape(x), x.dtype()});
  const std::array<Value*, 3> inputs{&x, &weight, &bias};
  std::vector<Value> made = r.emit_many(OpKind::kTeNorm, inputs, results, attributes);
  TeNormed out;
  if (has_mean) out.mean = std::move(made[0]);
  out.deviation = std::move(made[has_mean ? 1 : 0]);
  out.result = std::move(made.back());
  return out;
}

}  // namespace

Value all_reduce_(Value x) { return x.recorder().emit_in_place(OpKind::kAllReduceInPlace, {&x}); }
Value count_nonzero(Value x) {
  return x.recorder().emit(OpKind::kCountNonzero, {&x}, {Layout::contiguous(SizeList{}), DType::kInt64});
}
Value exp_(Value x) { return x.recorder().emit_in_place(OpKind::kExpInPlace, {&x}); }
Value sub_(Value x, Value y) { return x.recorder().emit_in_place(OpKind::kSubInPlace, {&x, &y}); }

Value linear(Value x, Value weight, Value bias, LinearOptions options) {
  Recorder& r = x.recorder();
  const FusedAttr attributes = attributes_of(bias, options);
  Value y;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    Value all = x;
    if (options.input_ranks > 1) all = gather_sequence_into(x, options.buffer, options.input_ranks);
    y = ops::matmul(std::move(all), ops::transpose(weight, 0, 1));
    if (bias) {
      Value sum = ops::add(y, bias);
      y = std::move(sum);
    }
  }
  return r.emit_in_place(OpKind::kLinearFunction,
                         {&y, &x, &weight, &bias, &options.buffer, &options.dummy_gradient}, attributes);
}

Value reduce_from_tensor_parallel(Value x) {
  return x.recorder().emit_in_place(OpKind::kReduceFunction, {&x});
}

Value gather_sequence(Value x, int64_t ranks) {
  const Recorder::Result result{with_first(x, x.size(0) * ranks), x.dtype()};
  return x.recorder().emit(OpKind::kGatherSequence, {&x}, result);
}
Value reduce_scatter_sequence(Value x, int64_t ranks) {
  const Recorder::Result result{with_first(x, x.size(0) / ranks), x.dtype()};
  return x.recorder().emit(OpKind::kReduceScatterSequence, {&x}, result);
}

Value gather_sequence_into(const Value& x, const Value& buffer, int64_t ranks) {
  const Layout layout = with_first(x, x.size(0) * ranks);
  Value part = ops::slice(ops::view(buffer, {-1}), 0, 0, layout.elements());
  part = ops::view(std::move(part), layout.shape());
  x.recorder().emit_effect(OpKind::kGatherSequence, std::vector<TensorId>{x.id(), part.id()});
  return part;
}

namespace {

Value collective_function(OpKind kind, Value x, Value (*made)(Value, int64_t), int64_t ranks) {
  Recorder& r = x.recorder();
  Value result;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    result = made(x, ranks);
  }
  return r.emit_in_place(kind, {&result, &x}, FusedAttr{.multiprocessors = 0});
}
Value own_part(Value x, int64_t ranks) {
  const int64_t rows = x.size(0) / ranks;
  return ops::clone_contiguous(ops::slice(std::move(x), 0, 0, rows));
}

}  // namespace

Value reduce_scatter_to_sequence_parallel(Value x, int64_t ranks) {
  return collective_function(OpKind::kReduceScatterFunction, std::move(x), reduce_scatter_sequence, ranks);
}
Value gather_from_sequence_parallel(Value x, int64_t ranks) {
  return collective_function(OpKind::kGatherFunction, std::move(x), gather_sequence, ranks);
}
Value scatter_to_sequence_parallel(Value x, int64_t ranks) {
  return collective_function(OpKind::kScatterFunction, std::move(x), own_part, ranks);
}

Value fused_softmax(Value x) { return ops::unary(OpKind::kFusedSoftmax, std::move(x)); }

Value bias_dropout_add(Value x, Value bias, Value residual, double probability) {
  Recorder& r = x.recorder();
  if (bias) {  // within the kernel: no tensor is made
    Value sum = r.emit_in_place(OpKind::kFusedBiasAdd, {&x, &bias});
    x = std::move(sum);
  }
  if (probability == 0) return ops::add(std::move(residual), std::move(x));
  const Layout layout = contiguous_like_shape(x);
  const std::array<Recorder::Result, 2> results{{{layout, DType::kBool}, {layout, x.dtype()}}};
  const std::array<Value*, 2> inputs{&x, &residual};
  std::vector<Value> made = r.emit_many(OpKind::kDropoutAdd, inputs, results);
  return std::move(made[1]);
}

Value bias_gelu(Value x, Value bias) {
  const Recorder::Result result{contiguous_like_shape(x), x.dtype()};
  return x.recorder().emit(OpKind::kBiasGelu, {&x, &bias}, result);
}

Value bias_swiglu(Value x, Value bias) {
  const Recorder::Result result{with_last(x, x.size(-1) / 2), x.dtype()};
  const FusedAttr attributes{.has_bias = bias.is_defined()};
  return x.recorder().emit(OpKind::kBiasSwiglu, {&x, &bias}, result, attributes);
}

// Each group of lines is a function of the class VocabParallelCrossEntropy.
Value vocab_parallel_cross_entropy(Value logits, Value labels, bool is_split) {
  Recorder& r = logits.recorder();
  Value softmax, mask, masked, loss;
  const With<bool> no_grad(r.is_grad_enabled, false);
  {
    softmax = ops::cast(logits, DType::kFloat32);
    std::vector<Value> most = ops::max(softmax, -1);
    most[1].reset();
    if (is_split) most[0] = all_reduce_(std::move(most[0]));

    softmax = sub_(std::move(softmax), ops::unsqueeze(most[0], -1));
    Value below = ops::compare(labels), above = ops::compare(labels);
    mask = ops::logical_and(below, above);
    below.reset();
    above.reset();
    masked = ops::add(ops::clone(labels), -1.0);
    masked = ops::masked_fill_(std::move(masked), mask);
    const int64_t rows = labels.layout().elements();
    Value flat = ops::view(softmax, {rows, softmax.size(-1)});
    masked = ops::view(std::move(masked), {rows});
    Value counter = ops::arange(r, rows);
    Value picked = ops::index(flat, {counter, masked});
    Value predicted = ops::clone(picked);
    picked.reset();
    predicted = ops::view(std::move(predicted), labels.layout().shape());
    predicted = ops::masked_fill_(std::move(predicted), mask);
    softmax = exp_(std::move(softmax));
    Value sum = ops::sum(softmax, {-1}, false);
    counter.reset();
    flat.reset();
    if (is_split) predicted = all_reduce_(std::move(predicted));
    if (is_split) sum = all_reduce_(std::move(sum));

    Value logarithm = ops::unary(OpKind::kLog, sum);
    loss = ops::sub(std::move(logarithm), predicted);
    softmax = ops::div_(std::move(softmax), ops::unsqueeze(sum, -1));
    most.clear();
    predicted.reset();
    sum.reset();
  }
  const With<bool> grad(r.is_grad_enabled, true);
  labels.reset();
  return r.emit_in_place(OpKind::kVocabParallelCrossEntropy, {&loss, &logits, &softmax, &mask, &masked});
}

Value fused_vocab_parallel_cross_entropy(Value logits, Value labels) {
  Recorder& r = logits.recorder();
  Value softmax, mask, masked, loss;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    softmax = ops::cast(logits, DType::kFloat32);
    std::vector<Value> most = ops::max(softmax, -1);
    most[1].reset();
    mask = ops::compare(labels);
    masked = ops::add(labels, -1.0);
    masked = ops::view(std::move(masked), {labels.layout().elements()});
    softmax = exp_(sub_(std::move(softmax), ops::unsqueeze(most[0], -1)));
    // The targets' logits and the sums in one tensor, which is reduced over the ranks at once.
    Value both = ops::empty(r, {2, labels.size(0), labels.size(1)}, DType::kFloat32);
    both = all_reduce_(std::move(both));
    Value sum = ops::select(both, 0, 1);
    loss = ops::sub(sum, ops::select(both, 0, 0));
    softmax = ops::div_(std::move(softmax), ops::unsqueeze(std::move(sum), -1));
    most.clear();
  }
  labels.reset();
  return r.emit_in_place(OpKind::kVocabParallelCrossEntropy, {&loss, &logits, &softmax, &mask, &masked});
}

Value fused_layer_norm(Value x, Value weight, Value bias) {
  const std::array<Recorder::Result, 3> results{
      {{contiguous_like_shape(x), x.dtype()}, {rows_of(x), DType::kFloat32}, {rows_of(x), DType::kFloat32}}};
  const std::array<Value*, 3> inputs{&x, &weight, &bias};
  return std::move(x.recorder().emit_many(OpKind::kFusedLayerNorm, inputs, results)[0]);
}

Value te_norm(Value x, Value weight, Value bias, int64_t multiprocessors) {
  const FusedAttr attributes{.has_norm_bias = bias.is_defined(), .multiprocessors = multiprocessors};
  return normed(std::move(x), std::move(weight), std::move(bias), attributes).result;
}

Value te_gemm(Value x, Value weight, Value bias) {
  const Recorder::Result result{with_last(x, weight.size(0)), x.dtype()};
  return x.recorder().emit(OpKind::kTeGemm, {&x, &weight, &bias}, result);
}

Value te_linear(Value x, Value weight, Value bias, LinearOptions options) {
  Recorder& r = x.recorder();
  const FusedAttr attributes = attributes_of(bias, options);
  Value y;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    Value all = options.input_ranks > 1 ? gather_sequence(x, options.input_ranks) : x;
    y = te_gemm(std::move(all), weight, bias);
    if (options.result_ranks > 1) y = reduce_scatter_sequence(std::move(y), options.result_ranks);
  }
  return r.emit_in_place(OpKind::kTeLinear, {&y, &x, &weight, &bias, &options.dummy_gradient}, attributes);
}

Value te_norm_linear(Value x, Value norm_weight, Value norm_bias, Value weight, Value bias,
                     int64_t multiprocessors, LinearOptions options) {
  Recorder& r = x.recorder();
  FusedAttr attributes = attributes_of(bias, options);
  attributes.has_norm_bias = norm_bias.is_defined();
  attributes.multiprocessors = multiprocessors;
  Value y;
  TeNormed norm;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    norm = normed(x, norm_weight, norm_bias, attributes);
    Value all = options.input_ranks > 1 ? gather_sequence(norm.result, options.input_ranks) : norm.result;
    y = te_gemm(std::move(all), weight, bias);
  }
  return r.emit_in_place(OpKind::kTeNormLinear,
                         {&y, &x, &norm_weight, &weight, &norm.result, &norm.deviation, &norm.mean,
                          &norm_bias, &bias, &options.dummy_gradient},
                         attributes);
}

Value te_softmax(Value x) { return ops::unary(OpKind::kTeSoftmax, std::move(x)); }

Value te_rotary(Value x, Value angles) {
  const Recorder::Result result{contiguous_like_shape(x), x.dtype()};
  return x.recorder().emit(OpKind::kTeRotary, {&x, &angles}, result);
}

Value te_flash_attention(Value q, Value k, Value v, int64_t multiprocessors) {
  const std::array<Recorder::Result, 3> results{
      {{with_last(q, v.size(3)), q.dtype()},
       {Layout::contiguous({q.size(0), q.size(2), q.size(1)}), DType::kFloat32},
       {Layout::contiguous({2}), DType::kInt64}}};
  const std::array<Value*, 3> inputs{&q, &k, &v};
  return std::move(q.recorder().emit_many(OpKind::kTeFlashAttention, inputs, results,
                                          FusedAttr{.multiprocessors = multiprocessors})[0]);
}

}  // namespace plimsoll::megatron
