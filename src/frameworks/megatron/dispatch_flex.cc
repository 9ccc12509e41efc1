// MoEFlexTokenDispatcher with DeepEP: a token goes once to each rank that has any of its experts, and becomes
// a row for each of them there. DeepEP's own buffers lie outside of PyTorch's allocator.
//
// Source: token_dispatcher.py (_DeepepManager), fused_a2a.py.
#include <cmath>

#include "frameworks/megatron/permutation.h"
#include "program/ops_megatron_experts.h"

namespace plimsoll::megatron {
namespace {

class FlexDispatcher : public Dispatcher {
 public:
  FlexDispatcher(Writer& w, const Moe& moe)
      : w_(w),
        moe_(moe),
        tensor_ranks_(expert_tensor_ranks(w.job())),
        local_(moe.experts / w.settings().experts.expert_ranks) {}

  Dispatched to_experts(const Value& x, Routes routes) override {
    sequence_ = x.size(0);
    batch_ = x.size(1);
    hidden_ = x.size(2);
    const int64_t n = sequence_ * batch_;
    const ExpertLoad load = expert_load(w_.job(), moe_, n);
    const int64_t sent_to = moe_.experts_per_token * tensor_ranks_;
    received_ = received(n, load);
    std::vector<Value> top = ops::topk(on_all_ranks(std::move(routes.probs)), sent_to, -1);
    Value probs = ops::cast(std::move(top[0]), DType::kFloat32);
    w_.keep(top[1]);
    w_.keep(probs);
    Value tokens = all_to_all(ops::view(x, {-1, hidden_}), received_);
    probs = all_to_all(std::move(probs), received_);
    Routes local = on_local_experts(std::move(probs), sent_to);
    Permutation rows = permuted(w_, std::move(tokens), local.map, local.probs, load.computed);
    rows_ = rows.rows;
    w_.keep(local.map);
    w_.keep(rows_);
    return {.tokens = std::move(rows.tokens), .probs = std::move(rows.probs)};
  }

  Value from_experts(Value rows) override {
    Value sum = unpermuted(w_, std::move(rows), rows_, received_, hidden_);
    rows_.reset();
    sum = all_to_all(std::move(sum), sequence_ * batch_);
    return ops::view(std::move(sum), {sequence_, batch_, hidden_});
  }

 private:
  int64_t received(int64_t tokens, const ExpertLoad& load) const {
    const MegatronExperts& e = w_.settings().experts;
    const auto all = static_cast<double>(tokens * e.expert_ranks * tensor_ranks_);
    const double some = all * share_of_tokens(moe_, local_) * e.load;
    return std::min(static_cast<int64_t>(std::ceil(some)), load.computed);
  }

  // _initialize_metadata: [n, E] for each tensor-parallel rank of the experts.
  Value on_all_ranks(Value probs) const {
    if (tensor_ranks_ == 1) return probs;
    const int64_t n = probs.size(0), ranks = moe_.experts / local_;
    probs = ops::view(std::move(probs), {n, ranks, 1, local_});
    probs = ops::expand(std::move(probs), {-1, -1, tensor_ranks_, -1});
    return ops::reshape(ops::clone_contiguous(std::move(probs)), {n, moe_.experts * tensor_ranks_});
  }

  // _indices_to_multihot
  Routes on_local_experts(Value probs, int64_t per_token) const {
    Recorder& r = w_.recorder();
    const Value indices = ops::empty(r, {received_, per_token}, DType::kInt64);
    Routes out;
    {
      const With<bool> no_grad(r.is_grad_enabled, false);
      Value map = ops::zeros(r, {received_, local_}, DType::kInt64);
      out.map = ops::cast(ops::scatter_(std::move(map), 1, indices), DType::kBool);
    }
    Value zeros = ops::zeros(r, {received_, local_}, DType::kFloat32);
    out.probs = ops::scatter_(std::move(zeros), 1, indices, std::move(probs));
    return out;
  }

  Writer& w_;
  const Moe& moe_;
  int64_t tensor_ranks_, local_, sequence_ = 0, batch_ = 0, hidden_ = 0, received_ = 0;
  Value rows_;
};

}  // namespace

// 1 - C(E - e, k) / C(E, k)
double share_of_tokens(const Moe& moe, int64_t local_experts) {
  double none = 1;
  for (int64_t i = 0; i < moe.experts_per_token; ++i)
    none *= std::max(0.0, static_cast<double>(moe.experts - local_experts - i)) /
            static_cast<double>(moe.experts - i);
  return 1 - none;
}

std::unique_ptr<Dispatcher> make_flex_dispatcher(Writer& w, const Moe& moe) {
  return std::make_unique<FlexDispatcher>(w, moe);
}

}  // namespace plimsoll::megatron
