// Backward of the ops of Megatron-Core, apex and Transformer Engine. See ops_megatron.h for the sources.
#include <algorithm>
#include <array>

#include "base/block.h"
#include "program/backward_rules.h"
#include "program/ops_megatron.h"

namespace plimsoll {
namespace {

Value as_rows(Value x) {
  const int64_t features = x.size(-1);
  return ops::reshape(std::move(x), {-1, features});
}
Value made_like(BackwardCall& call, OpKind kind, std::initializer_list<Value*> inputs, size_t like) {
  const TensorInfo& info = call.input_info(like);
  return call.recorder.emit(kind, inputs, {Layout::contiguous(info.layout.shape()), info.dtype});
}
Recorder::Result result_like(const TensorInfo& info) {
  return {Layout::contiguous(info.layout.shape()), info.dtype};
}

// The last input of a linear whose weight's gradient goes to the buffer: what stands for it.
uint16_t dummy_bit(const Program& program, const Op& op) {
  const bool has_dummy = std::get<FusedAttr>(program.attributes_of(op)).adds_weight_gradient;
  return static_cast<uint16_t>(has_dummy ? 1U << (op.input_count - 1) : 0U);
}
Value dummy_of(const BackwardCall& call) { return ops::detach(call.input(call.op.input_count - 1)); }

// Inputs: result, x, weight, then those that there are of bias, the buffer that x is gathered into, and what
// stands for the weight's gradient.
size_t buffer_input(const FusedAttr& attributes) { return attributes.has_bias ? 4 : 3; }
Saves keeps_for_linear(const Program& program, const Op& op, const InputSet&) {
  const FusedAttr& attributes = std::get<FusedAttr>(program.attributes_of(op));
  const bool has_buffer = op.kind == OpKind::kLinearFunction && attributes.input_ranks > 1;
  const unsigned buffer = has_buffer ? 1U << buffer_input(attributes) : 0U;
  return {.inputs = static_cast<uint16_t>(6U | buffer | dummy_bit(program, op))};
}
// Of a part of the sequence: x is gathered again, the input's gradient reduce-scattered before the weight's
// is computed.
void linear(BackwardCall& call) {
  const FusedAttr& attributes = call.attributes<FusedAttr>();
  const Value gradient = call.gradient();
  Value x = call.input(1), input;
  if (attributes.input_ranks > 1)
    x = megatron::gather_sequence_into(x, call.input(buffer_input(attributes)), attributes.input_ranks);
  if (call.needs(1)) {
    input = ops::matmul(gradient, call.input(2));
    if (attributes.sums_input_gradient) input = megatron::all_reduce_(std::move(input));
    call.results[1] =
        attributes.input_ranks > 1 ? megatron::reduce_scatter_sequence(input, attributes.input_ranks) : input;
  }
  const Value rows = as_rows(gradient);
  if (call.needs(2) && attributes.adds_weight_gradient) {
    const Value flat = as_rows(std::move(x));
    call.recorder.emit_effect(OpKind::kMmOut, std::vector<TensorId>{rows.id(), flat.id()});
    call.results[2] = dummy_of(call);
  } else if (call.needs(2)) {
    call.results[2] = ops::mm(ops::transpose(rows, 0, 1), as_rows(std::move(x)));
  }
  if (attributes.has_bias && call.needs(3)) call.results[3] = ops::sum(rows, {0}, false);
}

// The kernel works in place on the gradient.
void fused_softmax(BackwardCall& call) {
  Value gradient = call.gradient(), result = call.output(0);
  call.results[0] = call.recorder.emit_in_place(OpKind::kFusedSoftmaxBackward, {&gradient, &result});
}
void te_softmax(BackwardCall& call) {
  Value gradient = call.gradient(), result = call.output(0);
  call.results[0] = made_like(call, OpKind::kTeSoftmaxBackward, {&gradient, &result}, 0);
}

// Inputs: x, residual; outputs: mask, result.
Saves keeps_mask_output(const Program&, const Op&, const InputSet&) { return {.outputs = 1}; }
void dropout_add(BackwardCall& call) {
  if (call.needs(1)) call.results[1] = call.gradient(1);
  Value gradient = call.gradient(1), mask = call.output(0);
  call.results[0] = made_like(call, OpKind::kDropoutBackward, {&gradient, &mask}, 0);
}

// GeLUFunction returns the same tensor for both: the engine sums it for the bias.
Saves keeps_both(const Program&, const Op&, const InputSet&) { return {.inputs = 3}; }
void bias_gelu(BackwardCall& call) {
  Value gradient = call.gradient(), x = call.input(0), bias = call.input(1);
  call.results[0] = made_like(call, OpKind::kBiasGeluBackward, {&gradient, &x, &bias}, 0);
  if (call.needs(1)) call.results[1] = call.results[0];
}

Saves keeps_all_inputs(const Program&, const Op& op, const InputSet&) {
  return {.inputs = Saves::first(op.input_count)};
}
void bias_swiglu(BackwardCall& call) {
  const bool has_bias = call.attributes<FusedAttr>().has_bias;
  Value gradient = call.gradient(), x = call.input(0), bias = has_bias ? call.input(1) : Value();
  call.results[0] = made_like(call, OpKind::kBiasSwigluBackward, {&gradient, &x, &bias}, 0);
  if (has_bias && call.needs(1)) call.results[1] = call.results[0];
}

// Inputs: loss, logits, softmax, mask, masked targets. The gradient is the softmax, changed in place.
Saves keeps_for_vocab_loss(const Program&, const Op&, const InputSet&) { return {.inputs = 28}; }
void vocab_parallel_cross_entropy(BackwardCall& call) {
  Value softmax = call.input(2);
  const int64_t rows = softmax.layout().elements() / softmax.size(-1);
  const Value flat = ops::view(softmax, {rows, softmax.size(-1)});
  const Value counter = ops::arange(call.recorder, rows);
  Value kept = ops::cast(ops::view(call.input(3), {rows}), DType::kFloat32);
  const Value update = ops::with_scalar(OpKind::kRsub, std::move(kept), 1);
  {  // grad_2d[arange, target] -= update
    Value read = ops::index(flat, {counter, call.input(4)});
    read = megatron::sub_(std::move(read), update);
    Value row_index = counter, target = call.input(4), into = flat;
    call.recorder.emit_in_place(OpKind::kIndexPutInPlace, {&into, &row_index, &target, &read});
  }
  Value scale = ops::unsqueeze(call.gradient(), -1);
  call.results[1] = call.recorder.emit_in_place(OpKind::kMulInPlace, {&softmax, &scale});
}

// Inputs: x, weight, bias; outputs: result, mean, deviation. Two buffers hold partial sums of the weights'
// gradients, of 16 rows. Source: apex csrc/layer_norm_cuda_kernel.cu (HostLayerNormGradient, part_size).
constexpr int64_t kApexPartRows = 16;
Saves keeps_for_norm(const Program&, const Op&, const InputSet&) { return {.inputs = 7, .outputs = 6}; }
void fused_layer_norm(BackwardCall& call) {
  Value gradient = call.gradient(), x = call.input(0), weight = call.input(1), bias = call.input(2),
        mean = call.output(1), deviation = call.output(2);
  const Recorder::Result part{Layout::contiguous({kApexPartRows, x.size(-1)}), DType::kFloat32};
  const std::array<Recorder::Result, 5> results{result_like(call.input_info(0)),
                                                result_like(call.input_info(1)),
                                                result_like(call.input_info(2)), part, part};
  const std::array<Value*, 6> inputs{&gradient, &x, &weight, &bias, &mean, &deviation};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kFusedLayerNormBackward, inputs, results);
  for (size_t i = 3; i < made.size(); ++i) made[i].reset();
  for (size_t i = 0; i < 3; ++i) call.results[i] = std::move(made[i]);
}

// ---- Transformer Engine ----

struct NormGradients {
  Value x, weight, bias;
};
// Partial sums of the weights' gradients: a row in fp32 for each thread block, one a multiprocessor, of gamma
// and of beta. Source: transformer_engine/common/normalization (launch of ln_bwd_tuned_kernel).
NormGradients te_norm_gradients(BackwardCall& call, Value gradient, Value x, Value weight, Value mean,
                                Value deviation) {
  const FusedAttr& attributes = call.attributes<FusedAttr>();
  const int64_t count = attributes.has_norm_bias ? 2 : 1;
  const Recorder::Result like_x{Layout::contiguous(x.layout().shape()), x.dtype()};
  std::vector<Recorder::Result> results{like_x};
  for (int64_t i = 0; i < count; ++i)
    results.push_back({Layout::contiguous(weight.layout().shape()), weight.dtype()});
  results.push_back({Layout::contiguous({count * attributes.multiprocessors, x.size(-1)}), DType::kFloat32});
  const std::array<Value*, 5> inputs{&gradient, &x, &weight, &mean, &deviation};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kTeNormBackward, inputs, results);
  made.back().reset();
  x.reset();
  weight.reset();
  mean.reset();
  deviation.reset();
  NormGradients out{.weight = std::move(made[1])};
  const std::vector<int64_t> shape(like_x.layout.shape().begin(), like_x.layout.shape().end());
  out.x = ops::view(std::move(made[0]), shape);
  if (attributes.has_norm_bias) out.bias = std::move(made[2]);
  return out;
}

// Inputs: x, weight, bias if there is one; outputs: mean if there is a bias, deviation, result.
Saves keeps_for_te_norm(const Program&, const Op& op, const InputSet&) {
  return {.inputs = 3, .outputs = Saves::first(op.output_count - 1)};
}
void te_norm(BackwardCall& call) {
  const bool has_mean = call.attributes<FusedAttr>().has_norm_bias;
  const size_t deviation = has_mean ? 1 : 0;
  NormGradients made = te_norm_gradients(call, call.gradient(deviation + 1), call.input(0), call.input(1),
                                         has_mean ? call.output(0) : Value(), call.output(deviation));
  if (has_mean) call.clear_output(0);
  call.clear_output(deviation);
  call.results[0] = std::move(made.x);
  call.results[1] = std::move(made.weight);
  if (has_mean) call.results[2] = std::move(made.bias);
}

// Gradients by Transformer Engine's GEMM: of the input, of the weight, of the bias with the weight's.
Value te_input_gradient(const Value& gradient, const Value& weight, bool is_summed) {
  Value left = gradient, right = ops::transpose(weight, 0, 1);
  Value made = megatron::te_gemm(std::move(left), std::move(right), {});
  if (is_summed) made = megatron::all_reduce_(std::move(made));
  return made;
}
struct WeightGradients {
  Value weight, bias;
};
WeightGradients te_weight_gradients(BackwardCall& call, const Value& gradient, Value x, const Value& weight) {
  const FusedAttr& attributes = call.attributes<FusedAttr>();
  Value left = gradient;
  std::vector<Recorder::Result> results;
  if (!attributes.adds_weight_gradient)
    results.push_back({Layout::contiguous(weight.layout().shape()), weight.dtype()});
  if (attributes.has_bias) results.push_back({Layout::contiguous({weight.size(0)}), weight.dtype()});
  const std::array<Value*, 2> inputs{&left, &x};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kTeGemm, inputs, results);
  WeightGradients out;
  if (attributes.has_bias) out.bias = std::move(made.back());
  out.weight = attributes.adds_weight_gradient ? dummy_of(call) : std::move(made.front());
  return out;
}

// What the products of a linear's backward are made of: gathered where a rank has a part of it.
Value whole(const Value& part, int64_t ranks) {
  return ranks > 1 ? megatron::gather_sequence(part, ranks) : part;
}
// Inputs: result, x, weight, bias if there is one.
void te_linear(BackwardCall& call) {
  const FusedAttr& attributes = call.attributes<FusedAttr>();
  const Value gradient = whole(call.gradient(), attributes.result_ranks);
  const Value x = whole(call.input(1), attributes.input_ranks);
  Value input;
  if (call.needs(1)) {
    input = te_input_gradient(gradient, call.input(2), attributes.sums_input_gradient);
    call.results[1] =
        attributes.input_ranks > 1 ? megatron::reduce_scatter_sequence(input, attributes.input_ranks) : input;
  }
  WeightGradients made = te_weight_gradients(call, gradient, x, call.input(2));
  call.results[2] = std::move(made.weight);
  if (attributes.has_bias) call.results[3] = std::move(made.bias);
}

// Inputs: result, x, norm weight, weight, normed, deviation, then those that there are of mean, norm bias,
// bias.
Saves keeps_for_norm_linear(const Program& program, const Op& op, const InputSet&) {
  const bool has_mean = std::get<FusedAttr>(program.attributes_of(op)).has_norm_bias;
  return {.inputs = static_cast<uint16_t>(0x3eU | (has_mean ? 0x40U : 0U) | dummy_bit(program, op))};
}
void te_norm_linear(BackwardCall& call) {
  const FusedAttr& attributes = call.attributes<FusedAttr>();
  const bool has_mean = attributes.has_norm_bias;
  const Value& gradient = call.gradient();
  Value x = whole(call.input(4), attributes.input_ranks);
  Value input = te_input_gradient(gradient, call.input(3), attributes.sums_input_gradient);
  Value normed =
      attributes.input_ranks > 1 ? megatron::reduce_scatter_sequence(input, attributes.input_ranks) : input;
  WeightGradients linear = te_weight_gradients(call, gradient, x, call.input(3));
  call.clear_input(4);
  x.reset();
  NormGradients norm = te_norm_gradients(call, normed, call.input(1), call.input(2),
                                         has_mean ? call.input(6) : Value(), call.input(5));
  if (has_mean) call.clear_input(6);
  call.clear_input(5);
  normed.reset();
  input.reset();
  call.results[1] = std::move(norm.x);
  call.results[2] = std::move(norm.weight);
  call.results[3] = std::move(linear.weight);
  if (has_mean) call.results[7] = std::move(norm.bias);
  if (attributes.has_bias) call.results[has_mean ? 8 : 6] = std::move(linear.bias);
}

Saves keeps_angles(const Program&, const Op&, const InputSet&) { return {.inputs = 2}; }
void te_rotary(BackwardCall& call) { call.results[0] = megatron::te_rotary(call.gradient(), call.input(1)); }

// Inputs: result, x.
int64_t ranks_of(const BackwardCall& call) {
  const int64_t of_result = call.input_info(0).layout.size(0), of_x = call.input_info(1).layout.size(0);
  return std::max(of_result, of_x) / std::min(of_result, of_x);
}
void gathered(BackwardCall& call) {
  call.results[1] = megatron::gather_sequence(call.gradient(), ranks_of(call));
}
Saves keeps_buffer(const Program&, const Op& op, const InputSet&) {
  return {.inputs = static_cast<uint16_t>(op.input_count > 2 ? 4U : 0U)};
}
// Into the buffer that the forward gathered into, where it did (use_global_buffer).
void reduce_scattered(BackwardCall& call) {
  if (call.op.input_count > 2) {
    const TensorInfo& x = call.input_info(1);
    Value part = ops::view(call.input(2), {-1}), gradient = call.gradient();
    part = ops::slice(std::move(part), 0, 0, x.layout.elements());
    part = ops::view(std::move(part), x.layout.shape());
    call.recorder.emit_effect(OpKind::kReduceScatterSequence,
                              std::vector<TensorId>{gradient.id(), part.id()});
    call.results[1] = std::move(part);
    return;
  }
  call.results[1] = megatron::reduce_scatter_sequence(call.gradient(), ranks_of(call));
}

// FlashAttention 2: dq, dk, dv like q, k, v; as scratch the sums of gradient x output of each row, and dq in
// fp32, in deterministic mode as often as the blocks of one head fill the multiprocessors. Source:
// csrc/flash_attn/flash_api.cpp (mha_bwd: softmax_d, dq_accum).
Saves keeps_for_attention(const Program&, const Op&, const InputSet&) { return {.inputs = 7, .outputs = 7}; }
void te_flash_attention(BackwardCall& call) {
  std::vector<Value> kept{call.gradient()};
  for (size_t i = 0; i < 3; ++i) kept.push_back(call.input(i));
  for (size_t i = 0; i < 3; ++i) kept.push_back(call.output(i));
  std::vector<Value*> inputs;
  for (Value& v : kept) inputs.push_back(&v);
  const Layout& q = call.input_info(0).layout;  // [b, s, heads, d]
  const int64_t b = q.size(0), s = round_up(q.size(1), int64_t{128}), heads = q.size(2);
  const int64_t d = q.size(3) <= 192 ? round_up(q.size(3), int64_t{32}) : 256;
  const FusedAttr& attributes = call.attributes<FusedAttr>();
  const int64_t splits = std::max<int64_t>(1, divide_up(attributes.multiprocessors, b * heads));
  const std::array<Recorder::Result, 5> results{
      result_like(call.input_info(0)), result_like(call.input_info(1)), result_like(call.input_info(2)),
      Recorder::Result{Layout::contiguous({b, heads, s}), DType::kFloat32},
      Recorder::Result{Layout::contiguous({splits, b, s, heads, d}), DType::kFloat32}};
  std::vector<Value> made =
      call.recorder.emit_many(OpKind::kTeFlashAttentionBackward, inputs, results, attributes);
  made[4].reset();
  made[3].reset();
  for (size_t i = 0; i < 3; ++i) call.results[i] = std::move(made[i]);
}

}  // namespace

void add_megatron_rows(const SetRow& set) {
  set(OpKind::kLinearFunction, {.saves = keeps_for_linear, .backward = linear, .is_python_function = true});
  set(OpKind::kReduceFunction, {.backward = passes_on, .is_python_function = true});
  set(OpKind::kFusedSoftmax, {.saves = keeps_output, .backward = fused_softmax, .is_python_function = true});
  set(OpKind::kTeSoftmax, {.saves = keeps_output, .backward = te_softmax, .is_python_function = true});
  set(OpKind::kFusedBiasAdd, {.backward = passes_on});
  set(OpKind::kDropoutAdd, {.saves = keeps_mask_output, .backward = dropout_add});
  set(OpKind::kBiasGelu, {.saves = keeps_both, .backward = bias_gelu, .is_python_function = true});
  set(OpKind::kBiasSwiglu, {.saves = keeps_all_inputs, .backward = bias_swiglu, .is_python_function = true});
  set(OpKind::kVocabParallelCrossEntropy,
      {.saves = keeps_for_vocab_loss, .backward = vocab_parallel_cross_entropy, .is_python_function = true});
  set(OpKind::kFusedLayerNorm,
      {.saves = keeps_for_norm, .backward = fused_layer_norm, .is_python_function = true});
  set(OpKind::kTeNorm, {.saves = keeps_for_te_norm, .backward = te_norm, .is_python_function = true});
  set(OpKind::kTeLinear, {.saves = keeps_for_linear, .backward = te_linear, .is_python_function = true});
  set(OpKind::kTeNormLinear,
      {.saves = keeps_for_norm_linear, .backward = te_norm_linear, .is_python_function = true});
  set(OpKind::kTeRotary, {.saves = keeps_angles, .backward = te_rotary, .is_python_function = true});
  set(OpKind::kReduceScatterFunction, {.backward = gathered, .is_python_function = true});
  set(OpKind::kScatterFunction, {.backward = gathered, .is_python_function = true});
  set(OpKind::kGatherFunction,
      {.saves = keeps_buffer, .backward = reduce_scattered, .is_python_function = true});
  set(OpKind::kTeFlashAttention,
      {.saves = keeps_for_attention, .backward = te_flash_attention, .is_python_function = true});
}

}  // namespace plimsoll
