// Ops of the native runtime. What they keep is what runtime/kernels/ needs.
#include <array>

#include "program/backward_rules.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

// Inputs: x, weight; outputs: result, 1 / rms of each row.
Saves keeps_for_rms_norm(const Program&, const Op&, const InputSet&) { return {.inputs = 3, .outputs = 2}; }
void rms_norm(BackwardCall& call) {
  Value gradient = call.gradient(), x = call.input(0), weight = call.input(1), scale = call.output(1);
  const std::array<Recorder::Result, 2> results{
      {{Layout::contiguous(x.layout().shape()), x.dtype()}, {weight.layout(), weight.dtype()}}};
  const std::array<Value*, 4> inputs{&gradient, &x, &weight, &scale};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kRmsNormBackward, inputs, results);
  for (size_t i = 0; i < 2; ++i) call.results[i] = std::move(made[i]);
}

// Inputs: x, cos, sin.
Saves keeps_table(const Program&, const Op&, const InputSet&) { return {.inputs = 6}; }
void rotary(BackwardCall& call) {
  const double sign = call.attributes<ScalarAttr>().value;
  call.results[0] = ops::rotary(call.gradient(), {.cos = call.input(1), .sin = call.input(2)}, -sign);
}

Saves keeps_both(const Program&, const Op&, const InputSet&) { return {.inputs = 3}; }
void swiglu(BackwardCall& call) {
  Value gradient = call.gradient(), gate = call.input(0), up = call.input(1);
  const Recorder::Result result{Layout::contiguous(gate.layout().shape()), gate.dtype()};
  const std::array<Recorder::Result, 2> results{result, result};
  const std::array<Value*, 3> inputs{&gradient, &gate, &up};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kSwigluBackward, inputs, results);
  for (size_t i = 0; i < 2; ++i) call.results[i] = std::move(made[i]);
}

void gelu_tanh(BackwardCall& call) {
  call.results[0] = ops::binary(OpKind::kGeluTanhBackward, call.gradient(), call.input(0));
}

// Inputs: q, k, v; outputs: result, log-sum-exp.
Saves keeps_for_attention(const Program&, const Op&, const InputSet&) { return {.inputs = 7, .outputs = 3}; }
void cpu_flash_attention(BackwardCall& call) {
  Value gradient = call.gradient(), q = call.input(0), k = call.input(1), v = call.input(2),
        output = call.output(0), lse = call.output(1);
  std::array<Recorder::Result, 3> results;
  for (size_t i = 0; i < 3; ++i) {
    const TensorInfo& like = call.input_info(i);
    const Layout& l = like.layout;
    results.at(i) = {Layout::contiguous({l.size(0), l.size(2), l.size(1), l.size(3)}).transposed(1, 2),
                     like.dtype};
  }
  const std::array<Value*, 6> inputs{&gradient, &q, &k, &v, &output, &lse};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kCpuFlashAttentionBackward, inputs, results,
                                                    call.attributes<AttentionAttr>());
  for (size_t i = 0; i < 3; ++i) call.results[i] = std::move(made[i]);
}

// Inputs: logits, labels; outputs: loss, log-sum-exp of each row.
Saves keeps_for_cross_entropy(const Program&, const Op&, const InputSet&) {
  return {.inputs = 3, .outputs = 2};
}
void cross_entropy(BackwardCall& call) {
  Value gradient = call.gradient(), logits = call.input(0), labels = call.input(1), lse = call.output(1);
  call.results[0] = call.recorder.emit_in_place(
      OpKind::kCrossEntropyBackward, {&logits, &gradient, &labels, &lse}, call.attributes<ScalarAttr>());
}

}  // namespace

void add_native_rows(const SetRow& set) {
  set(OpKind::kRmsNorm, {.saves = keeps_for_rms_norm, .backward = rms_norm});
  set(OpKind::kRotary, {.saves = keeps_table, .backward = rotary});
  set(OpKind::kSwiglu, {.saves = keeps_both, .backward = swiglu});
  set(OpKind::kGeluTanh, {.saves = keeps_input, .backward = gelu_tanh});
  set(OpKind::kCpuFlashAttention, {.saves = keeps_for_attention, .backward = cpu_flash_attention});
  set(OpKind::kCrossEntropy, {.saves = keeps_for_cross_entropy, .backward = cross_entropy});
}

}  // namespace plimsoll
