// The experts of a mixture, all in one module. Source: transformers 5.24, integrations/moe.py
// (experts_implementation "grouped_mm", the default, and "batched_mm") and GptOssExperts, Llama4TextExperts
// of the models.
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// _grouped_linear; parameters are [experts, out, in], or [experts, in, out] as GptOss has them.
Value grouped_linear(Eager& e, bool is_transposed, std::string_view parameter, const Value& x,
                     const Value& offsets, const Value& bias) {
  Value weight = e.parameter(parameter);
  if (!is_transposed) weight = ops::transpose(std::move(weight), -2, -1);
  Value input = ops::cast(x, weight.dtype());
  Value out = ops::grouped_mm(std::move(input), std::move(weight), offsets);
  return bias ? ops::add_(std::move(out), bias) : out;
}

// _default_apply_gate
Value apply_gate(Eager& e, const Moe& moe, const Value& gate_up) {
  std::vector<Value> halves = ops::chunk(gate_up, 2, -1);
  Value activated = activation(e, "act_fn", moe.activation, halves[0]);
  return ops::mul(std::move(activated), halves[1]);
}

// GptOssExperts._apply_gate: gate and up take turns.
Value apply_clamped_gate(const Value& gate_up) {
  constexpr double kAlpha = 1.702;
  const int64_t width = gate_up.size(-1) / 2;
  Value gate = ops::slice(gate_up, -1, 0, width, 2);
  Value up = ops::slice(gate_up, -1, 1, width, 2);
  gate = ops::clamp(gate);
  up = ops::clamp_between(up);
  const Value glu = ops::mul(gate, ops::sigmoid(ops::mul(gate, kAlpha)));
  return ops::mul(ops::add(up, 1.0), glu);
}

// x.repeat_interleave(times, dim=0)
Value repeated_rows(const Value& x, int64_t times) {
  Value wide = ops::expand(ops::unsqueeze(x, 1), {x.size(0), times, x.size(1)});
  return ops::view(ops::clone_contiguous(std::move(wide)), {x.size(0) * times, x.size(1)});
}

// _batched_linear; weights are [pairs, out, in], or [pairs, in, out] as GptOss has them.
Value batched_linear(Eager& e, bool is_transposed, const Value& x, const Value& weights,
                     const Value& biases) {
  Value out = is_transposed ? ops::squeeze(e.bmm(ops::unsqueeze(x, 1), weights), 1)
                            : ops::squeeze(e.bmm(weights, ops::unsqueeze(x, -1)), -1);
  return biases ? ops::add_(std::move(out), biases) : out;
}

}  // namespace

// grouped_mm_experts_forward: all pairs of a token and a chosen expert at once, sorted by expert.
Value grouped_experts(Eager& e, MixtureVariant variant, const Moe& moe, const Value& hidden,
                      const Value& indices, const Value& weights) {
  const Eager::Module scope(e, "experts");
  const bool is_gpt_oss = variant == MixtureVariant::kGptOss;
  const int64_t tokens = hidden.size(0), width = hidden.size(-1), per_token = indices.size(-1);
  const Value pair_weights = ops::reshape(weights, {-1});
  const Value expert_ids = ops::reshape(indices, {-1});
  const std::vector<Value> sorted = ops::sort(expert_ids, -1);
  const Value& order = sorted[1];
  Value token = ops::with_scalar(OpKind::kFloorDivide, order, static_cast<double>(per_token));
  const Value selected = ops::index(hidden, {std::move(token)});
  const Value selected_weights = ops::index(pair_weights, {order});

  const Value counted = ops::cast(sorted[0], DType::kInt32);
  const Value tokens_per_expert = ops::histogram(counted, moe.experts);
  const Value offsets = ops::cumsum(tokens_per_expert, 0, DType::kInt32);

  Value biases;
  if (moe.has_expert_bias) biases = ops::index(e.parameter("gate_up_proj_bias"), {sorted[0]});
  Value out = grouped_linear(e, is_gpt_oss, "gate_up_proj", selected, offsets, biases);
  out = is_gpt_oss ? apply_clamped_gate(out) : apply_gate(e, moe, out);
  if (moe.has_expert_bias) biases = ops::index(e.parameter("down_proj_bias"), {sorted[0]});
  out = grouped_linear(e, is_gpt_oss, "down_proj", out, offsets, biases);

  Value weighted = ops::mul(out, ops::unsqueeze(selected_weights, -1));
  Value inverse = ops::empty_like(order);
  inverse = ops::index_put_(std::move(inverse), {order}, ops::arange(e.recorder(), order.size(0)));
  weighted = ops::index(weighted, {inverse});
  const Value sum = e.sum(ops::view(weighted, {tokens, per_token, width}), 1);
  return ops::cast(sum, hidden.dtype());
}

// batched_mm_experts_forward: every pair of a token and a chosen expert is a matrix product of its own.
Value batched_experts(Eager& e, MixtureVariant variant, const Moe& moe, const Value& hidden,
                      const Value& indices, const Value& weights) {
  const Eager::Module scope(e, "experts");
  const bool is_gpt_oss = variant == MixtureVariant::kGptOss;
  const int64_t tokens = hidden.size(0), width = hidden.size(-1), per_token = indices.size(-1);
  const Value selected = repeated_rows(hidden, per_token);
  const Value pair_weights = ops::reshape(weights, {-1});
  const Value expert_ids = ops::reshape(indices, {-1});

  Value chosen = ops::index(e.parameter("gate_up_proj"), {expert_ids}), biases;
  if (moe.has_expert_bias) biases = ops::index(e.parameter("gate_up_proj_bias"), {expert_ids});
  Value out = batched_linear(e, is_gpt_oss, selected, chosen, biases);
  out = is_gpt_oss ? apply_clamped_gate(out) : apply_gate(e, moe, out);
  chosen = ops::index(e.parameter("down_proj"), {expert_ids});
  if (moe.has_expert_bias) biases = ops::index(e.parameter("down_proj_bias"), {expert_ids});
  out = batched_linear(e, is_gpt_oss, out, chosen, biases);

  const Value weighted = ops::mul(out, ops::unsqueeze(pair_weights, -1));
  const Value sum = e.sum(ops::view(weighted, {tokens, per_token, width}), 1);
  return ops::cast(sum, hidden.dtype());
}

// Llama4TextExperts.forward
Value spread_experts(Eager& e, const Moe& moe, const Value& given) {
  const Eager::Module scope(e, "experts");
  const Value hidden = ops::view(given, {moe.experts, -1, given.size(-1)});
  const Value gate_up = e.bmm(hidden, e.parameter("gate_up_proj"));
  const std::vector<Value> halves = ops::chunk(gate_up, 2, -1);
  Value product = ops::mul(halves[1], activation(e, "act_fn", moe.activation, halves[0]));
  const Value next = e.bmm(std::move(product), e.parameter("down_proj"));
  return ops::view(next, {-1, given.size(-1)});
}

}  // namespace plimsoll::pytorch
