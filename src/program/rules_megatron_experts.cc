// Backward of the ops of mixtures of experts. See ops_megatron_experts.h for the sources.
#include <array>

#include "program/backward_rules.h"
#include "program/ops_megatron_experts.h"

namespace plimsoll {
namespace {

Layout contiguous_like(const TensorInfo& info) { return Layout::contiguous(info.layout.shape()); }

// ---- rows by index ----

Saves keeps_second(const Program&, const Op&, const InputSet&) { return {.inputs = 2}; }
// New zeros and a new sum: see zeros_like_input in rules_indexing.cc. Source: index_select_backward_symint.
void index_select(BackwardCall& call) {
  Value gradient = call.gradient(), index = call.input(1);
  Value zeros = ops::zeros(call.recorder, contiguous_like(call.input_info(0)), gradient.dtype());
  const Recorder::Result result{zeros.layout(), zeros.dtype()};
  call.results[0] = call.recorder.emit(OpKind::kIndexAdd, {&zeros, &index, &gradient}, result);
}
// The source is kept too, for its sizes (expand_as). Source: derivatives.yaml.
Saves keeps_index_and_source(const Program&, const Op&, const InputSet&) { return {.inputs = 6}; }
void index_add_in_place(BackwardCall& call) {
  if (call.needs(0)) call.results[0] = call.gradient();
  if (call.needs(2)) call.results[2] = megatron::index_select(call.gradient(), call.input(1));
}
// The index is expanded along the rows.
void scatter_add_in_place(BackwardCall& call) {
  if (call.needs(0)) call.results[0] = call.gradient();
  if (call.needs(2)) call.results[2] = ops::gather(call.gradient(), 0, call.input(1));
}

// grad * exp(x - logsumexp), at::logsumexp_backward.
Saves keeps_input_and_output(const Program&, const Op&, const InputSet&) {
  return {.inputs = 1, .outputs = 1};
}
void log_sum_exp(BackwardCall& call) {
  Value weights = ops::unary(OpKind::kExp, ops::sub(call.input(0), ops::unsqueeze(call.output(0), -1)));
  call.results[0] = ops::mul(ops::unsqueeze(call.gradient(), -1), std::move(weights));
}

Saves keeps_first_two(const Program&, const Op&, const InputSet&) { return {.inputs = 3}; }
void masked_select(BackwardCall& call) {
  Value gradient = call.gradient(), mask = call.input(1);
  Value zeros = ops::zeros_like(call.input(0));
  const Recorder::Result result{zeros.layout(), zeros.dtype()};
  call.results[0] = call.recorder.emit(OpKind::kMaskedScatter, {&zeros, &mask, &gradient}, result);
}

// ---- Megatron-Core ----

// Inputs: logits, x, weight, bias if there is one. Both products are made before either is cast.
Saves keeps_for_router(const Program&, const Op&, const InputSet&) { return {.inputs = 6}; }
void router_gating(BackwardCall& call) {
  const TensorInfo &x = call.input_info(1), &weight = call.input_info(2);
  const DType dtype = call.gradient().dtype();
  const auto product = [&](Value left, const TensorInfo& like) {
    Value right = call.gradient();
    return call.recorder.emit(OpKind::kTeGemm, {&left, &right}, {contiguous_like(like), dtype});
  };
  Value of_x = product(ops::cast(call.input(2), dtype), x);
  Value of_weight = product(ops::cast(call.input(1), dtype), weight);
  call.results[1] = ops::cast(std::move(of_x), x.dtype);
  call.results[2] = ops::cast(std::move(of_weight), weight.dtype);
  if (!call.attributes<FusedAttr>().has_bias) return;
  Value rows = ops::view(call.gradient(), {-1, weight.layout.size(0)});
  call.results[3] = ops::cast(ops::sum(std::move(rows), {0}, false), weight.dtype);
}

// Inputs: the output, the loss.
void auxiliary_loss(BackwardCall& call) {
  call.results[0] = call.gradient();
  call.results[1] = ops::mul(ops::ones_like(call.input(1)), 1.0);
}

void all_to_all(BackwardCall& call) {
  Value gradient = ops::contiguous(call.gradient());
  const Recorder::Result result{contiguous_like(call.input_info(1)), gradient.dtype()};
  call.results[1] = call.recorder.emit(OpKind::kAllToAll, {&gradient}, result);
}

// swiglu_back and the sum of the weights' gradient, fused.
void weighted_swiglu(BackwardCall& call) {
  Value gradient = call.gradient(), x = call.input(0), weights = call.input(1);
  const std::array<Recorder::Result, 2> results{{{contiguous_like(call.input_info(0)), x.dtype()},
                                                 {contiguous_like(call.input_info(1)), weights.dtype()}}};
  const std::array<Value*, 3> inputs{&gradient, &x, &weights};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kWeightedSwigluBackward, inputs, results);
  for (size_t i = 0; i < 2; ++i) call.results[i] = std::move(made[i]);
}

Saves keeps_tables(const Program&, const Op& op, const InputSet&) {
  return {.inputs = static_cast<uint16_t>(op.input_count == 3 ? 6U : 12U)};
}
// The kernel turns the gradient back in place.
void latent_rope_query(BackwardCall& call) {
  call.results[0] = megatron::latent_rope_query(call.gradient(), call.input(1), call.input(2));
}
// A result without a gradient has zeros for it (materialize_grads).
Value gradient_or_zeros(const BackwardCall& call, size_t output) {
  if (call.gradient(output)) return call.gradient(output);
  const TensorInfo& info = call.output_info(output);
  return ops::zeros(call.recorder, contiguous_like(info), info.dtype);
}
void latent_rope_key_value(BackwardCall& call) {
  Value of_key = gradient_or_zeros(call, 0), of_value = ops::contiguous(gradient_or_zeros(call, 1)),
        cos = call.input(2), sin = call.input(3);
  const std::array<Recorder::Result, 2> results{{{contiguous_like(call.input_info(0)), of_key.dtype()},
                                                 {contiguous_like(call.input_info(1)), of_key.dtype()}}};
  const std::array<Value*, 4> inputs{&of_key, &of_value, &cos, &sin};
  std::vector<Value> made = call.recorder.emit_many(OpKind::kLatentRopeKeyValueBackward, inputs, results);
  for (size_t i = 0; i < 2; ++i) call.results[i] = std::move(made[i]);
}

// ---- Transformer Engine ----

// Inputs: y, x, weights, what stands for their gradients if there is such. A later node of the same product
// passes y's gradient on.
size_t weights_of(const Program& program, const Op& op) {
  const bool has_dummy = std::get<FusedAttr>(program.attributes_of(op)).adds_weight_gradient;
  return op.input_count - 2 - (has_dummy ? 1 : 0);
}
Saves keeps_for_grouped_linear(const Program&, const Op& op, const InputSet&) {
  return {.inputs = static_cast<uint16_t>(Saves::first(op.input_count) & ~1U)};
}
void te_grouped_linear(BackwardCall& call) {
  const size_t count = weights_of(call.forward, call.op);
  Value gradient = call.gradient();
  if (call.needs(0)) call.results[0] = gradient;
  if (call.needs(1)) {
    Value left = gradient, right = call.input(2);
    call.results[1] = call.recorder.emit(OpKind::kTeGroupedGemm, {&left, &right},
                                         {contiguous_like(call.input_info(1)), gradient.dtype()});
  }
  Value x = call.input(1);
  if (call.attributes<FusedAttr>().adds_weight_gradient) {
    call.recorder.emit_effect(OpKind::kTeGroupedGemm, std::vector<TensorId>{gradient.id(), x.id()});
    for (size_t i = 0; i < count; ++i) call.results[2 + i] = ops::detach(call.input(call.op.input_count - 1));
    return;
  }
  const TensorInfo& weight = call.input_info(2);  // wgrad_packed: one tensor, of which each has a part
  const int64_t out = weight.layout.size(0), in = weight.layout.size(1);
  Value packed =
      call.recorder.emit(OpKind::kTeGroupedGemm, {&gradient, &x},
                         {Layout::contiguous({static_cast<int64_t>(count), out, in}), weight.dtype});
  for (size_t i = 0; i < count; ++i) call.results[2 + i] = ops::select(packed, 0, static_cast<int64_t>(i));
}

// Outputs: row map, scratch, tokens, probs if there are such.
Saves keeps_row_map(const Program&, const Op&, const InputSet&) { return {.outputs = 1}; }
void te_rows_back(BackwardCall& call, OpKind kind, size_t tokens, size_t probs_input) {
  const bool has_probs = call.op.output_count > tokens + 1;
  Value of_tokens = gradient_or_zeros(call, tokens),
        of_probs = has_probs ? gradient_or_zeros(call, tokens + 1) : Value(), map = call.output(0);
  std::vector<Recorder::Result> results{{contiguous_like(call.input_info(0)), of_tokens.dtype()}};
  if (has_probs) results.push_back({contiguous_like(call.input_info(probs_input)), of_probs.dtype()});
  const std::array<Value*, 3> inputs{&of_tokens, &map, &of_probs};
  std::vector<Value> made = call.recorder.emit_many(kind, inputs, results);
  call.results[0] = std::move(made[0]);
  if (has_probs) call.results[probs_input] = std::move(made[1]);
}
void te_permute(BackwardCall& call) { te_rows_back(call, OpKind::kTePermuteBackward, 2, 2); }
void te_sort_chunks(BackwardCall& call) { te_rows_back(call, OpKind::kTeSortChunksBackward, 1, 1); }
void te_unpermute(BackwardCall& call) {
  Value gradient = call.gradient(), map = call.input(1);
  call.results[0] = call.recorder.emit(OpKind::kTeUnpermuteBackward, {&gradient, &map},
                                       {contiguous_like(call.input_info(0)), call.input_info(0).dtype});
}

}  // namespace

void add_megatron_expert_rows(const SetRow& set) {
  set(OpKind::kIndexSelect, {.saves = keeps_second, .backward = index_select});
  set(OpKind::kIndexAddInPlace, {.saves = keeps_index_and_source, .backward = index_add_in_place});
  set(OpKind::kScatterAddInPlace, {.saves = keeps_second, .backward = scatter_add_in_place});
  set(OpKind::kLogSumExp, {.saves = keeps_input_and_output, .backward = log_sum_exp});
  set(OpKind::kMaskedSelect, {.saves = keeps_first_two, .backward = masked_select});
  set(OpKind::kRouterGating,
      {.saves = keeps_for_router, .backward = router_gating, .is_python_function = true});
  set(OpKind::kAuxiliaryLoss,
      {.saves = keeps_second, .backward = auxiliary_loss, .is_python_function = true});
  set(OpKind::kAllToAllFunction, {.backward = all_to_all, .is_python_function = true});
  set(OpKind::kWeightedSwiglu,
      {.saves = keeps_first_two, .backward = weighted_swiglu, .is_python_function = true});
  set(OpKind::kLatentRopeQuery,
      {.saves = keeps_tables, .backward = latent_rope_query, .is_python_function = true});
  set(OpKind::kLatentRopeKeyValue,
      {.saves = keeps_tables, .backward = latent_rope_key_value, .is_python_function = true});
  set(OpKind::kTeGroupedLinear,
      {.saves = keeps_for_grouped_linear, .backward = te_grouped_linear, .is_python_function = true});
  set(OpKind::kTePermute, {.saves = keeps_row_map, .backward = te_permute});
  set(OpKind::kTeUnpermute, {.saves = keeps_second, .backward = te_unpermute});
  set(OpKind::kTeSortChunks, {.saves = keeps_row_map, .backward = te_sort_chunks});
}

}  // namespace plimsoll
