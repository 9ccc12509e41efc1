#include <array>

#include "base/block.h"
#include "program/backward_rules.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

bool is_column_major(const Layout& l) { return l.stride(0) == 1 && l.stride(1) == l.size(0); }

// Gradient of the left operand: grad x right^T, in the operand's own order of dims.
Value left_gradient(const Value& gradient, const Value& right, const Layout& left) {
  if (is_column_major(left)) return ops::transpose(ops::mm(right, ops::transpose(gradient, 0, 1)), 0, 1);
  return ops::mm(gradient, ops::transpose(right, 0, 1));
}
Value right_gradient(const Value& gradient, const Value& left, const Layout& right) {
  if (is_column_major(right)) return ops::transpose(ops::mm(ops::transpose(gradient, 0, 1), left), 0, 1);
  return ops::mm(ops::transpose(left, 0, 1), gradient);
}

void mm(BackwardCall& call) {
  if (call.needs(1))
    call.results[1] = right_gradient(call.gradient(), call.input(0), call.input_info(1).layout);
  if (call.needs(0))
    call.results[0] = left_gradient(call.gradient(), call.input(1), call.input_info(0).layout);
}

// Inputs of addmm and baddbmm: addend, left, right.
Saves keeps_factors(const Program&, const Op&, const InputSet& needed) {
  return {.inputs = static_cast<uint16_t>((needed.contains(1) ? 4U : 0U) | (needed.contains(2) ? 2U : 0U))};
}
void addmm(BackwardCall& call) {
  if (call.needs(1))
    call.results[1] = left_gradient(call.gradient(), call.input(2), call.input_info(1).layout);
  if (call.needs(2))
    call.results[2] = right_gradient(call.gradient(), call.input(1), call.input_info(2).layout);
  if (call.needs(0)) call.results[0] = call.gradient();
}
void bmm(BackwardCall& call) {
  if (call.needs(1)) call.results[1] = ops::bmm(ops::transpose(call.input(0), 1, 2), call.gradient());
  if (call.needs(0)) call.results[0] = ops::bmm(call.gradient(), ops::transpose(call.input(1), 1, 2));
}
void baddbmm(BackwardCall& call) {
  const double alpha = call.attributes<ScalarAttr>().value;
  const auto scaled = [alpha](Value x) {
    if (alpha == 1) return x;
    return ops::mul(std::move(x), alpha);
  };
  if (call.needs(1)) call.results[1] = scaled(ops::bmm(call.gradient(), ops::transpose(call.input(2), 1, 2)));
  if (call.needs(2)) call.results[2] = scaled(ops::bmm(ops::transpose(call.input(1), 1, 2), call.gradient()));
  if (call.needs(0)) call.results[0] = call.gradient();
}

// _grouped_mm: each operand is kept when the other wants a gradient, the groups' ends always.
Saves keeps_for_grouped_mm(const Program& program, const Op& op, const InputSet& needed) {
  Saves saves = keeps_other_operand(program, op, needed);
  saves.inputs |= 4U;
  return saves;
}
bool is_last_two_column_major(const Layout& l) { return l.stride(-2) == 1 && l.stride(-1) == l.size(-2); }
// _grouped_mm_mat2_backward, _grouped_mm_mat1_backward: the gradient lies as its operand does.
void grouped_mm(BackwardCall& call) {
  const auto turned = [](const Value& x) { return ops::transpose(x, -2, -1); };
  if (call.needs(1)) {
    call.results[1] = is_last_two_column_major(call.input_info(1).layout)
                          ? turned(ops::grouped_mm(turned(call.gradient()), call.input(0), call.input(2)))
                          : ops::grouped_mm(turned(call.input(0)), call.gradient(), call.input(2));
  }
  if (call.needs(0)) {
    call.results[0] = is_last_two_column_major(call.input_info(0).layout)
                          ? turned(ops::grouped_mm(call.input(1), turned(call.gradient()), call.input(2)))
                          : ops::grouped_mm(call.gradient(), turned(call.input(1)), call.input(2));
  }
}

Saves keeps_for_layer_norm(const Program&, const Op& op, const InputSet&) {
  return {.inputs = Saves::first(op.input_count), .outputs = 6};
}
void layer_norm(BackwardCall& call) {
  Value gradient = call.gradient(), input = call.input(0), mean = call.output(1), deviation = call.output(2);
  std::vector<Value> affine;  // weight and bias, where there are any
  for (size_t i = 1; i < call.op.input_count; ++i) affine.push_back(call.input(i));
  std::vector<Recorder::Result> results;
  for (size_t i = 0; i < call.op.input_count; ++i)
    if (call.needs(i))
      results.push_back({Layout::contiguous(call.input_info(i).layout.shape()), call.input_info(i).dtype});
  std::vector<Value*> inputs{&gradient, &input, &mean, &deviation};
  for (Value& v : affine) inputs.push_back(&v);
  std::vector<Value> made = call.recorder.emit_many(OpKind::kLayerNormBackward, inputs, results);
  size_t next = 0;
  for (size_t i = 0; i < call.op.input_count; ++i)
    if (call.needs(i)) call.results[i] = std::move(made[next++]);
}

Saves keeps_for_fused_rms_norm(const Program&, const Op&, const InputSet&) {
  return {.inputs = 3, .outputs = 2};
}
void fused_rms_norm(BackwardCall& call) {
  Value gradient = call.gradient(), input = call.input(0), deviation = call.output(1), weight = call.input(1);
  std::vector<Recorder::Result> results;
  for (size_t i = 0; i < 2; ++i)
    if (call.needs(i))
      results.push_back({Layout::contiguous(call.input_info(i).layout.shape()), call.input_info(i).dtype});
  const std::array<Value*, 4> inputs{&gradient, &input, &deviation, &weight};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kFusedRmsNormBackward, inputs, results);
  size_t next = 0;
  for (size_t i = 0; i < 2; ++i)
    if (call.needs(i)) call.results[i] = std::move(made[next++]);
}

Saves keeps_for_fused_cross_entropy(const Program&, const Op&, const InputSet&) {
  return {.inputs = 3, .outputs = 6};
}
void fused_cross_entropy(BackwardCall& call) {
  Value gradient = call.gradient(), logits = call.input(0), target = call.input(1), maximum = call.output(1),
        log_sum = call.output(2);
  call.results[0] = call.recorder.emit(OpKind::kFusedCrossEntropyBackward,
                                       {&gradient, &logits, &target, &maximum, &log_sum},
                                       {Layout::contiguous(logits.layout().shape()), logits.dtype()});
}

Saves keeps_for_nll(const Program&, const Op&, const InputSet&) { return {.inputs = 3, .outputs = 2}; }
void nll_loss(BackwardCall& call) {
  Value gradient = call.gradient(), input = call.input(0), target = call.input(1), weight = call.output(1);
  call.results[0] = call.recorder.emit(OpKind::kNllLossBackward, {&gradient, &input, &target, &weight},
                                       {Layout::contiguous(input.layout().shape()), input.dtype()});
}

Saves keeps_for_attention(const Program&, const Op& op, const InputSet&) {
  return {.inputs = Saves::first(op.input_count), .outputs = Saves::first(op.output_count)};
}

// FlashAttention 2's own buffers in mha_bwd: softmax_d and dq_accum in fp32, and with grouped-query heads dk
// and dv for every query head. Source: csrc/flash_attn/flash_api.cpp as vendored by PyTorch.
Bytes flash_backward_workspace(const Layout& q, const Layout& k, DType dtype) {
  const int64_t b = q.size(0), heads = q.size(1), s = q.size(2), d = q.size(3);
  const int64_t rows = round_up(s, int64_t{128});
  const int64_t width = d <= 192 ? round_up(d, int64_t{32}) : 256;
  Bytes total =
      round_to_block(Bytes{b * heads} * rows * 4) + round_to_block(Bytes{b * rows} * heads * width * 4);
  if (k.size(1) != heads) total += round_to_block(Bytes{b * k.size(2)} * heads * d * bytes_of(dtype)) * 2;
  return total;
}

void attention(BackwardCall& call, OpKind kind) {
  const bool is_efficient = kind == OpKind::kEfficientAttentionBackward;
  Value gradient = call.gradient();
  std::vector<Value> kept;
  for (size_t i = 0; i < call.op.input_count; ++i) kept.push_back(call.input(i));
  for (size_t i = 0; i < call.op.output_count; ++i) kept.push_back(call.output(i));
  std::vector<Value*> inputs{&gradient};
  for (Value& v : kept) inputs.push_back(&v);
  std::vector<Recorder::Result> results;
  for (size_t i = 0; i < 3; ++i) {
    const Layout& like = call.input_info(i).layout;
    const Layout packed =
        Layout::contiguous({like.size(0), like.size(2), like.size(1), like.size(3)}).transposed(1, 2);
    results.push_back({is_efficient ? packed : like.like(), call.input_info(i).dtype});
  }
  std::vector<Value> made = call.recorder.emit_many(kind, inputs, results, call.attributes<AttentionAttr>());
  for (size_t i = 0; i < 3; ++i) call.results[i] = std::move(made[i]);
}
void flash_attention(BackwardCall& call) {
  attention(call, OpKind::kFlashAttentionBackward);
  call.recorder.set_workspace(flash_backward_workspace(call.input_info(0).layout, call.input_info(1).layout,
                                                       call.input_info(0).dtype));
}
void flash_attention_package(BackwardCall& call) {
  attention(call, OpKind::kFlashAttentionPackageBackward);
  call.recorder.set_workspace(flash_backward_workspace(call.input_info(0).layout.transposed(1, 2),
                                                       call.input_info(1).layout.transposed(1, 2),
                                                       call.input_info(0).dtype));
}
void efficient_attention(BackwardCall& call) { attention(call, OpKind::kEfficientAttentionBackward); }
void cudnn_attention(BackwardCall& call) { attention(call, OpKind::kCudnnAttentionBackward); }

// Liger's function has both gradients when its forward ends: inputs are the loss, what it was computed from,
// and these. The weight's is left out where the forward didn't make it; backward() then returns None for it,
// whether it is trained or not.
Saves keeps_ready_gradients(const Program&, const Op& op, const InputSet&) {
  return {.inputs = static_cast<uint16_t>(Saves::first(op.input_count) & ~7U)};
}
void fused_linear_cross_entropy(BackwardCall& call) {
  const Value one = ops::scalar_tensor(call.recorder, call.gradient().dtype());
  for (size_t i = 1; i <= 2; ++i)
    if (call.needs(i) && i + 2 < call.op.input_count) call.results[i] = call.input(i + 2);
}

}  // namespace

void partial_gradient(BackwardCall& call) { call.results[0] = ops::functional_all_reduce(call.gradient()); }

void add_network_rows(const SetRow& set) {
  set(OpKind::kFunctionalAllReduce, {.backward = passes_on});
  set(OpKind::kPartialGradient, {.backward = partial_gradient});
  set(OpKind::kMm, {.saves = keeps_other_operand, .backward = mm});
  set(OpKind::kAddmm, {.saves = keeps_factors, .backward = addmm});
  set(OpKind::kBmm, {.saves = keeps_other_operand, .backward = bmm});
  set(OpKind::kBaddbmm, {.saves = keeps_factors, .backward = baddbmm});
  set(OpKind::kGroupedMm, {.saves = keeps_for_grouped_mm, .backward = grouped_mm});
  set(OpKind::kLayerNorm, {.saves = keeps_for_layer_norm, .backward = layer_norm});
  set(OpKind::kFusedRmsNorm, {.saves = keeps_for_fused_rms_norm, .backward = fused_rms_norm});
  set(OpKind::kFusedCrossEntropy, {.saves = keeps_for_fused_cross_entropy, .backward = fused_cross_entropy});
  set(OpKind::kNllLoss, {.saves = keeps_for_nll, .backward = nll_loss});
  set(OpKind::kFusedLinearCrossEntropy,
      {.saves = keeps_ready_gradients, .backward = fused_linear_cross_entropy});
  set(OpKind::kFlashAttentionPackage, {.saves = keeps_for_attention, .backward = flash_attention_package});
  set(OpKind::kFlashAttention, {.saves = keeps_for_attention, .backward = flash_attention});
  set(OpKind::kEfficientAttention,
      {.saves = keeps_for_attention, .backward = efficient_attention, .outputs_for_gradient = 2});
  set(OpKind::kCudnnAttention, {.saves = keeps_for_attention, .backward = cudnn_attention});
}

}  // namespace plimsoll
