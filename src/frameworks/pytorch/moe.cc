// Blocks of experts behind a router. Source: transformers 5.24, models/<family>/modeling_<family>.py.
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

struct BlockCall {
  const Family& family;
  ExpertsImplementation implementation;
  const Moe& moe;
};

Routing routed(Eager& e, const BlockCall& call, std::string_view router, const Value& hidden,
               const Value& correction = {}) {
  const Eager::Module scope(e, router);
  return route(e, call.family.mixture, call.moe, hidden, correction);
}

Value experts_of(Eager& e, const BlockCall& call, const Value& hidden, const Routing& routing) {
  const auto experts =
      call.implementation == ExpertsImplementation::kBatchedMm ? batched_experts : grouped_experts;
  return experts(e, call.family.mixture, call.moe, hidden, routing.indices, routing.weights);
}

Value shared_expert(Eager& e, const BlockCall& call, std::string_view name, const Value& hidden) {
  const Mlp wide{.intermediate = call.moe.shared_intermediate,
                 .is_gated = true,
                 .has_bias = call.moe.has_shared_bias,
                 .activation = call.moe.activation};
  return mlp(e, call.family, wide, name, hidden);
}

// MixtralSparseMoeBlock, Qwen3MoeSparseMoeBlock, MiniMaxM2SparseMoeBlock
Value sparse_block(Eager& e, const BlockCall& call, const Value& given) {
  Value hidden = ops::view(given, {-1, given.size(-1)});
  const Routing routing = routed(e, call, "gate", hidden, e.buffer("e_score_correction_bias"));
  hidden = experts_of(e, call, hidden, routing);
  return ops::reshape(hidden, given.layout().shape());
}

// Qwen2MoeSparseMoeBlock
Value gated_shared_block(Eager& e, const BlockCall& call, const Value& given) {
  const Value hidden = ops::view(given, {-1, given.size(-1)});
  Value shared = shared_expert(e, call, "shared_expert", hidden);
  const Routing routing = routed(e, call, "gate", hidden);
  Value out = experts_of(e, call, hidden, routing);
  shared = ops::mul(ops::sigmoid(e.linear("shared_expert_gate", hidden)), shared);
  out = ops::add(out, shared);
  out = ops::reshape(out, given.layout().shape());
  return out;
}

// DeepseekV2Moe, DeepseekV3MoE, Glm4MoeMoE
Value shared_block(Eager& e, const BlockCall& call, const Value& given) {
  const Routing routing = routed(e, call, "gate", given);
  Value hidden = ops::view(given, {-1, given.size(-1)});
  hidden = ops::view(experts_of(e, call, hidden, routing), given.layout().shape());
  hidden = ops::add(hidden, shared_expert(e, call, "shared_experts", given));
  return hidden;
}

// GptOssMLP: returns the weights too.
MixtureResult gpt_oss_block(Eager& e, const BlockCall& call, const Value& given) {
  Value hidden = ops::reshape(given, {-1, given.size(-1)});
  Routing routing = routed(e, call, "router", hidden);
  hidden = experts_of(e, call, hidden, routing);
  hidden = ops::reshape(hidden, given.layout().shape());
  return {.output = std::move(hidden), .routing = std::move(routing.weights)};
}

// Llama4TextMoe: every expert computes every token; [tokens, hidden], and returns the logits too.
MixtureResult llama4_block(Eager& e, const BlockCall& call, const Value& given) {
  const int64_t width = given.size(-1);
  const Value hidden = ops::reshape(given, {-1, width});
  Routing routing = routed(e, call, "router", hidden);
  const int64_t count = routing.weights.size(1);
  const std::array<int64_t, 2> times{count, 1};
  Value routed_in = ops::repeat(hidden, times);
  Value weights = ops::reshape(ops::transpose(routing.weights, 0, 1), {-1, 1});
  routed_in = ops::mul(routed_in, std::move(weights));
  const Value routed_out = spread_experts(e, call.moe, routed_in);
  Value out = shared_expert(e, call, "shared_expert", hidden);
  Value sum = e.sum(ops::reshape(routed_out, {count, -1, width}), 0);
  out = ops::add_(std::move(out), std::move(sum));
  return {.output = std::move(out), .routing = std::move(routing.logits)};
}

}  // namespace

MixtureResult mixture(Eager& e, const Family& family, ExpertsImplementation implementation, const Moe& moe,
                      std::string_view name, const Value& x) {
  const Eager::Module scope(e, name);
  const BlockCall call{.family = family, .implementation = implementation, .moe = moe};
  switch (family.mixture) {
    case MixtureVariant::kMixtral:
    case MixtureVariant::kMinimax:
      return {.output = sparse_block(e, call, x)};
    case MixtureVariant::kQwen:
      return {.output = moe.has_shared_gate ? gated_shared_block(e, call, x) : sparse_block(e, call, x)};
    case MixtureVariant::kDeepseekV2:
    case MixtureVariant::kDeepseekV3:
      return {.output = shared_block(e, call, x)};
    case MixtureVariant::kGptOss:
      return gpt_oss_block(e, call, x);
    case MixtureVariant::kLlama4:
      return llama4_block(e, call, x);
  }
  return {};
}

}  // namespace plimsoll::pytorch
