// Mixtures of experts. Source: transformers 5.24, integrations/moe.py (experts_implementation "grouped_mm",
// the default) and models/<family>/modeling_<family>.py.
#include <cassert>

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// _grouped_linear; parameters are [experts, out, in].
Value grouped_linear(Eager& e, std::string_view parameter, const Value& x, const Value& offsets) {
  Value weight = ops::transpose(e.parameter(parameter), -2, -1);
  Value input = ops::cast(x, weight.dtype());
  return ops::grouped_mm(std::move(input), std::move(weight), offsets);
}

// _default_apply_gate
Value apply_gate(Eager& e, const Moe& moe, const Value& gate_up) {
  std::vector<Value> halves = ops::chunk(gate_up, 2, -1);
  Value activated = activation(e, "act_fn", moe.activation, halves[0]);
  return ops::mul(std::move(activated), halves[1]);
}

// grouped_mm_experts_forward: all pairs of a token and a chosen expert at once, sorted by expert.
Value experts(Eager& e, const Moe& moe, const Value& hidden, const Value& indices, const Value& weights) {
  const Eager::Module scope(e, "experts");
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

  Value out = grouped_linear(e, "gate_up_proj", selected, offsets);
  out = apply_gate(e, moe, out);
  out = grouped_linear(e, "down_proj", out, offsets);

  Value weighted = ops::mul(out, ops::unsqueeze(selected_weights, -1));
  Value inverse = ops::empty_like(order);
  inverse = ops::index_put_(std::move(inverse), {order}, ops::arange(e.recorder(), order.size(0)));
  weighted = ops::index(weighted, {inverse});
  const Value sum = ops::sum(ops::view(weighted, {tokens, per_token, width}), {1}, false);
  return ops::cast(sum, hidden.dtype());
}

Routing gate(Eager& e, const Family& family, const Moe& moe, const Value& hidden) {
  const Eager::Module scope(e, "gate");
  return route(e, family.mixture, moe, hidden);
}

// MixtralSparseMoeBlock, Qwen3MoeSparseMoeBlock
Value sparse_block(Eager& e, const Family& family, const Moe& moe, const Value& given) {
  Value hidden = ops::view(given, {-1, given.size(-1)});
  const Routing routing = gate(e, family, moe, hidden);
  hidden = experts(e, moe, hidden, routing.indices, routing.weights);
  return ops::reshape(hidden, given.layout().shape());
}

// Qwen2MoeSparseMoeBlock
Value gated_shared_block(Eager& e, const Family& family, const Moe& moe, const Value& given) {
  const Value hidden = ops::view(given, {-1, given.size(-1)});
  const Mlp wide{.intermediate = moe.shared_intermediate, .is_gated = true, .activation = moe.activation};
  Value shared = mlp(e, family, wide, "shared_expert", hidden);
  const Routing routing = gate(e, family, moe, hidden);
  Value out = experts(e, moe, hidden, routing.indices, routing.weights);
  shared = ops::mul(ops::sigmoid(e.linear("shared_expert_gate", hidden)), shared);
  out = ops::add(out, shared);
  out = ops::reshape(out, given.layout().shape());
  return out;
}

// DeepseekV2Moe, DeepseekV3MoE, Glm4MoeMoE
Value shared_block(Eager& e, const Family& family, const Moe& moe, const Value& given) {
  const Routing routing = gate(e, family, moe, given);
  Value hidden = ops::view(given, {-1, given.size(-1)});
  hidden = ops::view(experts(e, moe, hidden, routing.indices, routing.weights), given.layout().shape());
  const Mlp shared{.intermediate = moe.shared_intermediate, .is_gated = true, .activation = moe.activation};
  hidden = ops::add(hidden, mlp(e, family, shared, "shared_experts", given));
  return hidden;
}

}  // namespace

Value mixture(Eager& e, const Family& family, const Moe& moe, std::string_view name, const Value& x) {
  const Eager::Module scope(e, name);
  switch (family.mixture) {
    case MixtureVariant::kMixtral:
      return sparse_block(e, family, moe, x);
    case MixtureVariant::kQwen:
      return moe.has_shared_gate ? gated_shared_block(e, family, moe, x) : sparse_block(e, family, moe, x);
    case MixtureVariant::kDeepseekV2:
    case MixtureVariant::kDeepseekV3:
      return shared_block(e, family, moe, x);
    default:
      assert(false && "mixture without a recipe");
  }
  return x;
}

}  // namespace plimsoll::pytorch
