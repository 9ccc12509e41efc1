// TopKRouter. Each group of lines is a function of router.py or moe_utils.py, with the locals that it holds.
#include "frameworks/megatron/experts.h"
#include "program/ops_megatron_experts.h"

namespace plimsoll::megatron {
namespace {

constexpr double kEpsilon = 1e-8;

// sinkhorn(): how often it repeats depends on the numbers; once is as much memory as many times.
Value sinkhorn(Value cost) {
  Recorder& r = cost.recorder();
  const int64_t n = cost.size(0), experts = cost.size(1);
  cost = ops::unary(OpKind::kExp, std::move(cost));
  Value d0 = ops::ones(r, {n}, DType::kFloat32), d1 = ops::ones(r, {experts}, DType::kFloat32);
  const Value old = d1;
  const auto inverse = [&](Value weights, int dim) {
    Value sum = ops::sum(ops::mul(std::move(weights), cost), {dim}, false);
    sum = ops::add(std::move(sum), kEpsilon);
    return ops::mul(ops::unary(OpKind::kReciprocal, sum), 1.0);
  };
  d0 = inverse(d1, 1);
  d1 = inverse(ops::unsqueeze(d0, 1), 0);
  Value error = ops::mean(ops::unary(OpKind::kAbs, ops::sub(old, d1)), {0}, false);
  ops::compare(error);
  return ops::mul(ops::mul(d1, cost), ops::unsqueeze(d0, 1));
}

// torch.zeros_like(logits).int().scatter(1, indices, 1).bool()
Value chosen(const Value& logits, const Value& indices) {
  Value zeros = ops::cast(ops::zeros_like(logits), DType::kInt32);
  return ops::cast(ops::scatter(std::move(zeros), 1, indices), DType::kBool);
}

Routes sinkhorn_routes(const Moe& moe, Value logits) {
  Recorder& r = logits.recorder();
  Value norm;
  std::vector<Value> top;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    norm = sinkhorn(ops::cast(logits, DType::kFloat32));
    top = ops::topk(norm, moe.experts_per_token, 1);
  }
  logits = moe.experts_per_token == 1
               ? ops::sigmoid(std::move(logits))
               : ops::cast(ops::softmax(ops::cast(logits, DType::kFloat32), -1), logits.dtype());
  Routes out{.map = chosen(logits, top[1])};
  out.probs = ops::mul(logits, out.map);
  return out;
}

// group_limited_topk
std::vector<Value> best_of_best_groups(const Moe& moe, const Value& scores) {
  const int64_t width = moe.experts / moe.expert_groups;
  Value best = ops::view(scores, {-1, moe.expert_groups, width});
  best = std::move(ops::topk(std::move(best), moe.experts_per_token / moe.groups_per_token, -1)[0]);
  const Value group_scores = ops::sum(std::move(best), {-1}, false);
  const Value groups = std::move(ops::topk(group_scores, moe.groups_per_token, -1)[1]);
  const Value mask = ops::scatter_(ops::zeros_like(group_scores), 1, groups);
  Value wide = ops::expand(ops::unsqueeze(mask, -1), {-1, moe.expert_groups, width});
  const Value score_mask = ops::reshape(std::move(wide), {-1, moe.experts});
  Value outside = ops::unary(OpKind::kLogicalNot, ops::cast(score_mask, DType::kBool));
  const Value masked = ops::masked_fill(scores, std::move(outside));
  return ops::topk(masked, moe.experts_per_token, -1);
}
std::vector<Value> best(const Moe& moe, const Value& scores) {
  return moe.is_group_limited ? best_of_best_groups(moe, scores)
                              : ops::topk(scores, moe.experts_per_token, 1);
}

Value normalised(const Value& scores) {
  return ops::div(scores, ops::add(ops::sum(scores, {-1}, true), 1e-20));
}

// The probabilities of the chosen experts, [n, k], and which they are.
std::vector<Value> top_probabilities(Writer& w, const Moe& moe, const Value& logits) {
  const MegatronExperts& e = w.settings().experts;
  std::vector<Value> top;
  if (e.scores == MegatronScores::kSoftmax) {
    if (!e.normalises_before_topk) {
      top = best(moe, logits);
      top[0] = ops::softmax(std::move(top[0]), -1, DType::kFloat32);
      return top;
    }
    const Value scores = ops::softmax(logits, -1, DType::kFloat32);
    return best(moe, scores);
  }
  Value scores = ops::sigmoid(ops::cast(logits, DType::kFloat32));
  if (moe.has_score_correction_bias) {
    const Value bias =
        w.made_once("expert_bias." + w.path(), Layout::contiguous({moe.experts}), DType::kFloat32);
    const Value for_routing = ops::add(scores, bias);
    top = best(moe, for_routing);
    top[0] = ops::gather(scores, 1, top[1]);
  } else {
    top = best(moe, scores);
  }
  if (moe.experts_per_token > 1) top[0] = normalised(top[0]);
  return top;
}

// topk_routing_with_score_function
Routes topk_routes(Writer& w, const Moe& moe, const Value& logits) {
  std::vector<Value> top = top_probabilities(w, moe, logits);
  Value probs = std::move(top[0]);
  const Value indices = std::move(top[1]);
  if (w.settings().experts.scales_top_scores) probs = ops::mul(probs, 1.0);
  probs = ops::cast(std::move(probs), logits.dtype());
  Routes out;
  if (!w.settings().is_deterministic) {
    out.probs = ops::scatter_(ops::zeros_like(logits), 1, indices, probs);
    out.map = chosen(logits, indices);
    return out;
  }
  Recorder& r = w.recorder();
  const Value rows = ops::unsqueeze(ops::arange(r, logits.size(0)), 1);
  out.probs = ops::scatter_(ops::zeros_like(logits), 1, indices, probs);
  const With<bool> no_grad(r.is_grad_enabled, false);
  Value map = ops::scatter_(ops::zeros_like(logits), 1, indices, ops::ones_like(probs));
  out.map = ops::cast(std::move(map), DType::kBool);
  return out;
}

// apply_router_token_dropping: the highest probabilities stay.
Routes dropped(const ResolvedJob& job, const Moe& moe, Routes routes) {
  const int64_t n = routes.map.size(0), capacity = expert_load(job, moe, n).capacity;
  Value mask;
  if (capacity > n) {
    mask = ops::cast(ops::ones_like(routes.probs), DType::kBool);
  } else {
    const Value indices = std::move(ops::topk(routes.probs, capacity, 0)[1]);
    mask = ops::cast(ops::scatter(ops::zeros_like(routes.probs), 0, indices), DType::kBool);
  }
  Routes out{.map = mask};
  if (!job.megatron->experts.pads_to_capacity) out.map = ops::logical_and(routes.map, std::move(mask));
  out.probs = ops::mul(routes.probs, out.map);
  return out;
}

// apply_z_loss, z_loss_func
Value with_z_loss(Value logits) {
  Value squared = ops::pow(log_sum_exp(logits), 2);
  Value loss = ops::mul(ops::mean(std::move(squared), {0}, false), 1.0);
  return attach_auxiliary_loss(std::move(logits), std::move(loss));
}

// compute_routing_scores_for_aux_loss, then _apply_aux_loss or _apply_seq_aux_loss.
void attach_balance_loss(Writer& w, const Moe& moe, const Value& logits, Routes& routes) {
  const MegatronExperts& e = w.settings().experts;
  if (!e.has_auxiliary_loss && !e.has_sequence_auxiliary_loss) return;
  Value scores = e.scores == MegatronScores::kSoftmax
                     ? ops::softmax(logits, -1, DType::kFloat32)
                     : normalised(ops::sigmoid(ops::cast(logits, DType::kFloat32)));
  Value map = chosen(logits, ops::topk(scores, moe.experts_per_token, 1)[1]);
  if (e.has_sequence_auxiliary_loss) {
    const int64_t sequence = logits.size(0) / w.job().batch.micro_batch;
    scores = ops::reshape(std::move(scores), {sequence, -1});
    map = ops::reshape(std::move(map), {sequence, -1});
  }
  Value tokens = ops::sum_mask(map, 1U, false, DType::kInt64);
  if (w.tensor_ranks() * w.job().mesh.context > 1) tokens = all_reduce_(std::move(tokens));
  const Value by_expert = ops::sum(scores, {0}, false);
  Value loss = ops::mul(ops::sum(ops::mul(by_expert, tokens), {0}, false), 1.0);
  if (e.has_sequence_auxiliary_loss) loss = ops::div(loss, static_cast<double>(w.job().batch.micro_batch));
  routes.probs = attach_auxiliary_loss(std::move(routes.probs), std::move(loss));
}

}  // namespace

Routes route(Writer& w, const Moe& moe, const Value& x) {
  const Writer::Module module(w, "router");
  const MegatronExperts& e = w.settings().experts;
  const DType dtype = e.routes_in_float32 ? DType::kFloat32 : x.dtype();
  w.made_once(MadeOnce::Kind::kTeWorkspace);
  Value logits = router_gating(x, w.parameter("weight"), {}, dtype);
  logits = ops::view(std::move(logits), {-1, moe.experts});
  if (e.has_z_loss) logits = with_z_loss(std::move(logits));
  if (e.routing == MegatronRouting::kSinkhorn) return sinkhorn_routes(moe, std::move(logits));
  Routes routes = topk_routes(w, moe, logits);
  if (e.capacity_factor) routes = dropped(w.job(), moe, std::move(routes));
  attach_balance_loss(w, moe, logits, routes);
  if (moe.has_score_correction_bias) {  // _apply_expert_bias
    const With<bool> no_grad(w.recorder().is_grad_enabled, false);
    const Value counts = w.made_once("local_tokens_per_expert." + w.path(), Layout::contiguous({moe.experts}),
                                     DType::kFloat32);
    ops::add_(counts, ops::sum_mask(routes.map, 1U, false, DType::kInt64));
  }
  return routes;
}

}  // namespace plimsoll::megatron
