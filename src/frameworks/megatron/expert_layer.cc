// MoELayer: experts of their own, one after the other or in one grouped product, and shared ones.
#include <fmt/format.h>

#include <cmath>

#include "frameworks/megatron/experts.h"
#include "program/ops_megatron_experts.h"

namespace plimsoll::megatron {
namespace {

Value activation(const Moe& moe, Value x) {
  return moe.activation == Activation::kSilu ? ops::silu(std::move(x)) : ops::gelu(std::move(x));
}

// bias_act_func and MLP.forward with per_token_scale; probs [n, 1].
Value weighted_activation(Writer& w, const Moe& moe, Value wide, Value probs) {
  if (w.settings().fuses_bias_activation && moe.is_gated)
    return weighted_swiglu(std::move(wide), std::move(probs));
  Value active;
  if (moe.is_gated) {
    std::vector<Value> halves = ops::chunk(std::move(wide), 2, -1);
    active = ops::mul(activation(moe, std::move(halves[0])), halves[1]);
  } else {
    active = activation(moe, std::move(wide));
  }
  const DType dtype = active.dtype();
  return ops::cast(ops::mul(std::move(active), std::move(probs)), dtype);
}

Value expert_linear(Writer& w, std::string_view name, Value x) {
  const Writer::Module module(w, name);
  const LinearOptions options{.dummy_gradient = w.dummy_gradient()};
  if (w.is_te()) return te_linear(std::move(x), w.parameter("weight"), {}, options);
  return linear(std::move(x), w.parameter("weight"), {}, options);
}

// SequentialMLP
Value one_by_one(Writer& w, const Moe& moe, Dispatched in, int64_t experts) {
  const auto run = [&](int64_t i, Value tokens, Value probs) {
    const Writer::Module module(w, fmt::format("local_experts.{}", i));
    Value wide = expert_linear(w, "linear_fc1", std::move(tokens));
    Value active = weighted_activation(w, moe, std::move(wide), ops::unsqueeze(std::move(probs), -1));
    return expert_linear(w, "linear_fc2", std::move(active));
  };
  if (experts == 1) return run(0, std::move(in.tokens), std::move(in.probs));
  const int64_t rows = in.tokens.size(0);
  std::vector<int64_t> lengths(static_cast<size_t>(experts), rows / experts);
  lengths.back() += rows % experts;
  std::vector<Value> tokens = ops::split(in.tokens, lengths, 0), probs = ops::split(in.probs, lengths, 0);
  in = {};
  std::vector<Value> results;
  for (int64_t i = 0; i < experts; ++i) {
    const auto at = static_cast<size_t>(i);
    results.push_back(run(i, tokens[at], probs[at]));
  }
  return ops::cat(std::move(results), 0);
}

Value grouped_linear(Writer& w, std::string_view name, Value x, int64_t experts) {
  const Writer::Module module(w, name);
  std::vector<Value> weights;
  for (int64_t i = 0; i < experts; ++i) weights.push_back(w.parameter(fmt::format("weight{}", i)));
  w.made_once(MadeOnce::Kind::kTeGroupedWorkspace);
  return te_grouped_linear(std::move(x), weights, w.dummy_gradient_of(weights.front()));
}

// TEGroupedMLP
Value grouped(Writer& w, const Moe& moe, Dispatched in, int64_t experts) {
  Value wide = grouped_linear(w, "linear_fc1", std::move(in.tokens), experts);
  Value active = weighted_activation(w, moe, std::move(wide), ops::unsqueeze(std::move(in.probs), -1));
  return grouped_linear(w, "linear_fc2", std::move(active), experts);
}

// SharedExpertMLP
Value shared_experts(Writer& w, const Moe& moe, const Value& x) {
  const Writer::Module module(w, "shared_experts");
  Value wide = column_linear(w, "linear_fc1", x).result;
  Value active;
  if (w.settings().fuses_bias_activation && moe.is_gated) {
    active = bias_swiglu(std::move(wide), {});
  } else if (moe.is_gated) {
    std::vector<Value> halves = ops::chunk(std::move(wide), 2, -1);
    active = ops::mul(activation(moe, std::move(halves[0])), halves[1]);
  } else {
    active = activation(moe, std::move(wide));
  }
  return row_linear(w, "linear_fc2", std::move(active)).result;
}

}  // namespace

ExpertLoad expert_load(const ResolvedJob& job, const Moe& moe, int64_t tokens) {
  const MegatronExperts& e = job.megatron->experts;
  ExpertLoad load{.local_experts = moe.experts / e.expert_ranks};
  load.sent = load.received = tokens * moe.experts_per_token;
  if (e.load != 1) load.received = static_cast<int64_t>(std::ceil(static_cast<double>(load.sent) * e.load));
  if (e.capacity_factor) {  // get_capacity: rounded up
    const double each = static_cast<double>(load.sent) / static_cast<double>(moe.experts);
    load.capacity = static_cast<int64_t>(std::ceil(each * *e.capacity_factor));
    const int64_t most = load.capacity * moe.experts;
    load.sent = e.pads_to_capacity ? most : std::min(load.sent, most);
    load.received = e.pads_to_capacity ? most : std::min(load.received, most);
  }
  load.computed = load.received * expert_tensor_ranks(job);
  return load;
}

Value expert_layer(Writer& w, const Moe& moe, const Value& hidden) {
  const Value x = norm(w, "pre_mlp_layernorm", hidden);
  const Writer::Module module(w, "mlp");
  const MegatronExperts& e = w.settings().experts;
  Value shared;
  if (moe.shared_intermediate > 0) shared = shared_experts(w, moe, x);
  Routes routes = route(w, moe, x);
  const Value map = routes.map;  // forward()'s variable
  const auto make = [&] {
    if (e.dispatcher == MegatronDispatcher::kAllGather) return make_all_gather_dispatcher(w, moe);
    return e.dispatcher == MegatronDispatcher::kFlex ? make_flex_dispatcher(w, moe)
                                                     : make_all_to_all_dispatcher(w, moe);
  };
  const auto dispatcher = make();
  Dispatched in = dispatcher->to_experts(x, std::move(routes));
  Value out;
  {
    const Writer::Module experts(w, "experts");
    const int64_t local = moe.experts / e.expert_ranks;
    out =
        e.has_grouped_gemm ? grouped(w, moe, std::move(in), local) : one_by_one(w, moe, std::move(in), local);
  }
  out = dispatcher->from_experts(std::move(out));
  return shared ? ops::add(std::move(out), std::move(shared)) : out;
}

}  // namespace plimsoll::megatron
