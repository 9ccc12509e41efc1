// MoEAllGatherTokenDispatcher: every rank of the group gets all of its tokens, and takes those of its
// experts.
#include "frameworks/megatron/permutation.h"
#include "program/ops_megatron_experts.h"

namespace plimsoll::megatron {
namespace {

class AllGatherDispatcher : public Dispatcher {
 public:
  AllGatherDispatcher(Writer& w, const Moe& moe)
      : w_(w),
        moe_(moe),
        ranks_(expert_tensor_ranks(w.job()) * w.settings().experts.expert_ranks),
        local_(moe.experts / w.settings().experts.expert_ranks) {}

  Dispatched to_experts(const Value& x, Routes routes) override {
    sequence_ = x.size(0);
    batch_ = x.size(1);
    const ExpertLoad load = expert_load(w_.job(), moe_, sequence_ * batch_);
    Value tokens = ops::view(x, {-1, x.size(2)}), map = routes.map, probs = std::move(routes.probs);
    if (ranks_ > 1) gather(tokens, map, probs);
    Value local_map = local_experts(map);
    w_.keep(local_map);
    Value local_probs = local_experts(probs);
    {
      const With<bool> no_grad(w_.recorder().is_grad_enabled, false);
      ops::sum_mask(local_map, 1U, false, DType::kInt64);  // copied to the host
    }
    all_ = tokens.size(0);
    hidden_ = tokens.size(1);
    Permutation rows = permuted(w_, std::move(tokens), local_map, {}, load.computed);
    rows_ = rows.rows;
    w_.keep(rows_);
    Value by_expert = ops::contiguous(ops::transpose(local_probs, 0, 1));
    Value map_by_expert = ops::contiguous(ops::transpose(local_map, 0, 1));
    Value chosen = masked_select(std::move(by_expert), std::move(map_by_expert), load.computed);
    local_probs.reset();
    map.reset();
    w_.keep(chosen);
    // The routed layer's variable: what was gathered lives to its end.
    probs_ = std::move(probs);
    return {.tokens = std::move(rows.tokens), .probs = std::move(chosen)};
  }

  Value from_experts(Value rows) override {
    Value sum = unpermuted(w_, std::move(rows), rows_, all_, hidden_);
    rows_.reset();
    if (ranks_ > 1) sum = reduce_scatter_to_sequence_parallel(std::move(sum), ranks_);
    return ops::view(std::move(sum), {sequence_, batch_, hidden_});
  }

 private:
  void gather(Value& tokens, Value& map, Value& probs) {
    {
      const With<bool> no_grad(w_.recorder().is_grad_enabled, false);
      map = gather_sequence(map, ranks_);
    }
    Value all = gather_from_sequence_parallel(probs, ranks_);
    const Layout layout = Layout::contiguous({tokens.size(0) * ranks_, tokens.size(1)});
    tokens = gather_into_buffer(tokens, w_.global_buffer(layout), ranks_);
    probs = std::move(all);
  }
  // x[:, first : last].contiguous()
  Value local_experts(const Value& x) { return ops::contiguous(ops::slice_or_alias(x, 1, 0, local_)); }

  Writer& w_;
  const Moe& moe_;
  int64_t ranks_, local_, sequence_ = 0, batch_ = 0, all_ = 0, hidden_ = 0;
  Value rows_, probs_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_all_gather_dispatcher(Writer& w, const Moe& moe) {
  return std::make_unique<AllGatherDispatcher>(w, moe);
}

}  // namespace plimsoll::megatron
