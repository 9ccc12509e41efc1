// Which experts a token goes to, and with what weights. Source: transformers 5.24,
// models/<family>/modeling_<family>.py, <Family>TopKRouter.
#include <cassert>

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

}  // namespace

Routing route(Eager& e, MixtureVariant variant, const Moe& moe, const Value& hidden) {
  switch (variant) {
    case MixtureVariant::kMixtral:
      return softmax_router(e, moe, true, hidden);
    case MixtureVariant::kQwen:
      return softmax_router(e, moe, false, hidden);
    default:
      assert(false && "router without a recipe");
  }
  return {};
}

}  // namespace plimsoll::pytorch
