// MoEAlltoAllTokenDispatcher: each rank sends a token's row to the ranks of its experts.
#include "frameworks/megatron/permutation.h"
#include "program/ops_megatron_experts.h"

namespace plimsoll::megatron {
namespace {

class AllToAllDispatcher : public Dispatcher {
 public:
  AllToAllDispatcher(Writer& w, const Moe& moe)
      : w_(w),
        moe_(moe),
        e_(w.settings().experts),
        tensor_ranks_(expert_tensor_ranks(w.job())),
        local_(moe.experts / e_.expert_ranks) {}

  Dispatched to_experts(const Value& x, Routes routes) override {
    sequence_ = x.size(0);
    batch_ = x.size(1);
    hidden_ = x.size(2);
    load_ = expert_load(w_.job(), moe_, sequence_ * batch_);
    w_.keep(routes.probs);  // self.probs, self.routing_map
    w_.keep(routes.map);
    if (!e_.pads_to_capacity) count(routes.map);
    Value tokens = ops::view(x, {-1, hidden_});
    Permutation rows = e_.pads_to_capacity
                           ? permuted_to_capacity(std::move(tokens), routes.map, routes.probs, load_.capacity)
                           : permuted(w_, std::move(tokens), routes.map, routes.probs, load_.sent);
    rows_ = rows.rows;
    w_.keep(rows_);
    Dispatched out{.tokens = sent(std::move(rows.tokens)), .probs = sent(std::move(rows.probs))};
    if (tensor_ranks_ > 1) {
      out.tokens = gather_from_sequence_parallel(std::move(out.tokens), tensor_ranks_);
      out.probs = gather_from_sequence_parallel(std::move(out.probs), tensor_ranks_);
    }
    if (local_ > 1) sort(out);
    return out;
  }

  Value from_experts(Value rows) override {
    if (local_ > 1) {
      Dispatched back{.tokens = std::move(rows)};
      sort(back);
      rows = std::move(back.tokens);
    }
    if (tensor_ranks_ > 1) rows = reduce_scatter_to_sequence_parallel(std::move(rows), tensor_ranks_);
    if (e_.expert_ranks > 1) rows = all_to_all(std::move(rows), load_.sent);
    Value sum = unpermuted(w_, std::move(rows), rows_, sequence_ * batch_, hidden_);
    rows_.reset();
    return ops::view(std::move(sum), {sequence_, batch_, hidden_});
  }

 private:
  Value sent(Value x) { return e_.expert_ranks > 1 ? all_to_all(std::move(x), load_.received) : x; }

  // preprocess: numbers of tokens of the experts, of all ranks of the group, of the local experts. Most of
  // them go to the host; the last stay for the fused sort.
  void count(const Value& map) {
    const With<bool> no_grad(w_.recorder().is_grad_enabled, false);
    const int64_t ranks = tensor_ranks_ * e_.expert_ranks;
    Value of_local = ops::sum_mask(map, 1U, false, DType::kInt64);
    if (ranks > 1) {
      const Value own = std::move(of_local);
      const Value to_ranks = ops::sum(ops::view(own, {e_.expert_ranks, local_}), {1}, false);
      Value all = ops::view(gather_sequence(own, ranks), {e_.expert_ranks, tensor_ranks_, moe_.experts});
      all = ops::transpose(std::move(all), 0, 1);
      of_local = ops::contiguous(ops::slice_or_alias(std::move(all), 2, 0, local_));
      const Value of_ranks = ops::sum(of_local, {2}, false);
      ops::sum(of_ranks, {1}, false);
      ops::sum(of_local, {0, 1}, false);
    }
    if (local_ > 1 && e_.fuses_permutation) w_.keep(of_local);
  }

  // sort_chunks_by_idxs: the parts of one expert together, or those of one rank; padded ones by a transpose.
  void sort(Dispatched& rows) {
    if (e_.pads_to_capacity) {
      rows.tokens = ops::clone(std::move(rows.tokens));
      if (rows.probs) rows.probs = ops::clone(std::move(rows.probs));
      return;
    }
    if (e_.fuses_permutation) {
      Routed routed = te_sort_chunks(std::move(rows.tokens), std::move(rows.probs));
      rows = {.tokens = std::move(routed.tokens), .probs = std::move(routed.probs)};
      return;
    }
    rows.tokens = sorted(std::move(rows.tokens));
    if (rows.probs) rows.probs = sorted(std::move(rows.probs));
  }
  // Parts in another order, as cat makes them; the order itself is of no account.
  Value sorted(Value x) {
    const int64_t parts = std::min(tensor_ranks_ * moe_.experts, x.size(0)), rows = x.size(0);
    std::vector<int64_t> lengths(static_cast<size_t>(parts), rows / parts);
    lengths.back() += rows % parts;
    return ops::cat(ops::split(std::move(x), lengths, 0), 0);
  }

  Writer& w_;
  const Moe& moe_;
  const MegatronExperts& e_;
  int64_t tensor_ranks_, local_, sequence_ = 0, batch_ = 0, hidden_ = 0;
  ExpertLoad load_;
  Value rows_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_all_to_all_dispatcher(Writer& w, const Moe& moe) {
  return std::make_unique<AllToAllDispatcher>(w, moe);
}

}  // namespace plimsoll::megatron
