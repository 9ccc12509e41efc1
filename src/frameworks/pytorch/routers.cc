// Which experts a token goes to, and with what weights. Source: transformers 5.24,
// models/<family>/modeling_<family>.py, <Family>TopKRouter.
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

Value logits_of(Eager& e, Value hidden) {
  return e.linear_op(std::move(hidden), e.parameter("weight"), e.parameter("bias"));
}

// weights /= weights.sum(dim=-1, keepdim=True)
void normalise(Value& weights) {
  Value sum = ops::sum(weights, {-1}, true);
  weights = ops::div_(std::move(weights), std::move(sum));
}

// MixtralTopKRouter, Qwen2MoeTopKRouter
Routing softmax_router(Eager& e, const Moe& moe, bool keeps_float32, const Value& given) {
  Routing routing;
  const Value hidden = ops::reshape(given, {-1, given.size(-1)});
  routing.logits = logits_of(e, hidden);
  const Value probabilities = keeps_float32 ? ops::softmax(ops::cast(routing.logits, DType::kFloat32), -1)
                                            : ops::softmax(routing.logits, -1, DType::kFloat32);
  std::vector<Value> top = ops::topk(probabilities, moe.experts_per_token, -1);
  routing.weights = std::move(top[0]);
  routing.indices = std::move(top[1]);
  if (moe.has_normalised_weights) normalise(routing.weights);
  if (!keeps_float32) routing.weights = ops::cast(std::move(routing.weights), routing.logits.dtype());
  return routing;
}

// The experts outside the best groups are masked: what the code's locals hold of it.
struct GroupLimit {
  Value group_indices, group_mask, score_mask;
};
Value masked_to_groups(const Moe& moe, const Value& scores, const Value& group_scores, GroupLimit& locals) {
  const int64_t width = moe.experts / moe.expert_groups;
  locals.group_indices = std::move(ops::topk(group_scores, moe.groups_per_token, -1)[1]);
  Value zeros = ops::zeros_like(group_scores);
  locals.group_mask = ops::scatter_(std::move(zeros), 1, locals.group_indices);
  Value wide = ops::expand(ops::unsqueeze(locals.group_mask, -1), {-1, moe.expert_groups, width});
  locals.score_mask = ops::reshape(std::move(wide), {-1, moe.experts});
  Value outside = ops::unary(OpKind::kLogicalNot, ops::cast(locals.score_mask, DType::kBool));
  return ops::masked_fill(scores, std::move(outside));
}

// router_logits in fp32: F.linear(hidden.type(torch.float32), weight.type(torch.float32))
Value logits_in_float32(Eager& e, const Value& hidden) {
  Value weight = ops::cast(e.parameter("weight"), DType::kFloat32);
  return e.linear_op(ops::cast(hidden, DType::kFloat32), std::move(weight), {});
}

// DeepseekV2TopkRouter
Routing grouped_softmax_router(Eager& e, const Moe& moe, const Value& given) {
  Routing routing;
  const Value hidden = ops::view(given, {-1, given.size(-1)});
  routing.logits = logits_in_float32(e, hidden);
  Value scores = ops::softmax(routing.logits, -1, DType::kFloat32);
  Value group_scores;
  GroupLimit limit;
  if (moe.is_group_limited) {
    Value groups = ops::view(scores, {-1, moe.expert_groups, moe.experts / moe.expert_groups});
    group_scores = std::move(ops::max(std::move(groups), -1)[0]);
    scores = masked_to_groups(moe, scores, group_scores, limit);
  }
  std::vector<Value> top = ops::topk(scores, moe.experts_per_token, -1);
  routing.weights = ops::mul(std::move(top[0]), 1.0);
  routing.indices = std::move(top[1]);
  return routing;
}

// DeepseekV3TopkRouter, Glm4MoeTopkRouter
Routing sigmoid_router(Eager& e, const Moe& moe, const Value& given) {
  Routing routing;
  const Value hidden = ops::view(given, {-1, given.size(-1)});
  routing.logits = logits_in_float32(e, hidden);
  const Value scores = ops::sigmoid(routing.logits);
  Value choice = ops::add(scores, e.buffer("e_score_correction_bias"));
  Value best_two = ops::view(choice, {-1, moe.expert_groups, moe.experts / moe.expert_groups});
  best_two = std::move(ops::topk(std::move(best_two), 2, -1)[0]);
  const Value group_scores = ops::sum(std::move(best_two), {-1}, false);
  GroupLimit limit;
  choice = masked_to_groups(moe, choice, group_scores, limit);
  routing.indices = std::move(ops::topk(choice, moe.experts_per_token, -1)[1]);
  routing.weights = ops::gather(scores, 1, routing.indices);
  Value denominator;
  if (moe.has_normalised_weights) {
    denominator = ops::add(ops::sum(routing.weights, {-1}, true), 1e-20);
    routing.weights = ops::div_(std::move(routing.weights), denominator);
  }
  routing.weights = ops::mul(routing.weights, 1.0);
  return routing;
}

// GptOssTopKRouter
Routing chosen_softmax_router(Eager& e, const Moe& moe, const Value& hidden) {
  Routing routing;
  routing.logits = logits_of(e, hidden);
  std::vector<Value> top = ops::topk(routing.logits, moe.experts_per_token, -1);
  routing.weights = ops::softmax(top[0], 1, top[0].dtype());
  routing.indices = std::move(top[1]);
  return routing;
}

// MiniMaxM2TopKRouter; the correction is a buffer of the block.
Routing corrected_router(Eager& e, const Moe& moe, const Value& given, const Value& correction) {
  Routing routing;
  const Value hidden = ops::reshape(given, {-1, given.size(-1)});
  routing.logits = e.linear_op(ops::cast(hidden, e.parameter("weight").dtype()), e.parameter("weight"), {});
  const Value scores = ops::sigmoid(ops::cast(routing.logits, DType::kFloat32));
  const Value choice = ops::add(scores, correction);
  std::vector<Value> top = ops::topk(choice, moe.experts_per_token, -1);
  routing.indices = std::move(top[1]);
  routing.weights = ops::gather(scores, 1, routing.indices);
  normalise(routing.weights);
  return routing;
}

// Llama4Router: the weights are of all experts, those of the unchosen ones 0; no indices.
Routing spread_router(Eager& e, const Moe& moe, const Value& hidden) {
  Routing routing;
  routing.logits = logits_of(e, hidden);
  const std::vector<Value> top = ops::topk(routing.logits, moe.experts_per_token, 1);
  Value scores = ops::full_like(routing.logits);
  scores = ops::scatter_(std::move(scores), 1, top[1], top[0]);
  const DType dtype = scores.dtype();
  routing.weights = ops::cast(ops::sigmoid(ops::cast(scores, DType::kFloat32)), dtype);
  return routing;
}

}  // namespace

Routing route(Eager& e, MixtureVariant variant, const Moe& moe, const Value& hidden,
              const Value& correction) {
  switch (variant) {
    case MixtureVariant::kMixtral:
      return softmax_router(e, moe, true, hidden);
    case MixtureVariant::kQwen:
      return softmax_router(e, moe, false, hidden);
    case MixtureVariant::kDeepseekV2:
      return grouped_softmax_router(e, moe, hidden);
    case MixtureVariant::kDeepseekV3:
      return sigmoid_router(e, moe, hidden);
    case MixtureVariant::kMinimax:
      return corrected_router(e, moe, hidden, correction);
    case MixtureVariant::kGptOss:
      return chosen_softmax_router(e, moe, hidden);
    case MixtureVariant::kLlama4:
      return spread_router(e, moe, hidden);
  }
  return {};
}

}  // namespace plimsoll::pytorch
