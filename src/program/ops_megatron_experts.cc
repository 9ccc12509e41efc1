#include "program/ops_megatron_experts.h"

#include <algorithm>
#include <array>

#include "base/block.h"

namespace plimsoll::megatron {
namespace {

// x's shape with so many rows.
Layout with_rows(const Value& x, int64_t rows) {
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
  sizes.front() = rows;
  return Layout::contiguous(sizes);
}

}  // namespace

Value index_select(Value x, Value index) {
  const Recorder::Result result{with_rows(x, index.layout().elements()), x.dtype()};
  return x.recorder().emit(OpKind::kIndexSelect, {&x, &index}, result);
}
Value index_add_(Value x, Value index, Value source) {
  return x.recorder().emit_in_place(OpKind::kIndexAddInPlace, {&x, &index, &source});
}
Value scatter_add_rows_(Value x, Value index, Value source) {
  index = ops::expand(ops::unsqueeze(std::move(index), 1), {-1, source.size(1)});
  return x.recorder().emit_in_place(OpKind::kScatterAddInPlace, {&x, &index, &source});
}
Value log_sum_exp(Value x) {
  const std::span<const int64_t> shape = x.layout().shape();
  const Recorder::Result result{Layout::contiguous(shape.first(shape.size() - 1)), x.dtype()};
  return x.recorder().emit(OpKind::kLogSumExp, {&x}, result);
}
Value masked_select(Value x, Value mask, int64_t elements) {
  const Recorder::Result result{Layout::contiguous({elements}), x.dtype()};
  return x.recorder().emit(OpKind::kMaskedSelect, {&x, &mask}, result);
}

Value router_gating(Value x, Value weight, Value bias, DType dtype) {
  Recorder& r = x.recorder();
  Value y;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
    sizes.back() = weight.size(0);
    Value wide_bias = bias ? ops::cast(bias, dtype) : Value(), left = x, right = weight;
    y = r.emit(OpKind::kTeGemm, {&left, &right, &wide_bias}, {Layout::contiguous(sizes), dtype});
  }
  return r.emit_in_place(OpKind::kRouterGating, {&y, &x, &weight, &bias},
                         FusedAttr{.has_bias = bias.is_defined()});
}

Value attach_auxiliary_loss(Value output, Value loss) {
  return output.recorder().emit_in_place(OpKind::kAuxiliaryLoss, {&output, &loss});
}

Value gather_into_buffer(Value x, Value buffer, int64_t ranks) {
  Recorder& r = x.recorder();
  Value part;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    part = gather_sequence_into(x, buffer, ranks);
  }
  return r.emit_in_place(OpKind::kGatherFunction, {&part, &x, &buffer});
}

Value all_to_all(Value x, int64_t rows) {
  Recorder& r = x.recorder();
  Value y;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    Value sent = x;
    y = r.emit(OpKind::kAllToAll, {&sent}, {with_rows(x, rows), x.dtype()});
  }
  return r.emit_in_place(OpKind::kAllToAllFunction, {&y, &x});
}

Value weighted_swiglu(Value x, Value weights) {
  const Recorder::Result result{Layout::contiguous({x.size(0), x.size(1) / 2}), x.dtype()};
  return x.recorder().emit(OpKind::kWeightedSwiglu, {&x, &weights}, result);
}

Value latent_rope_query(Value q, Value cos, Value sin) {
  return q.recorder().emit_in_place(OpKind::kLatentRopeQuery, {&q, &cos, &sin});
}
KeyValue latent_rope_key_value(Value kv, Value k_rope, Value cos, Value sin, int64_t nope) {
  const int64_t s = kv.size(0), b = kv.size(1), heads = kv.size(2), d = k_rope.size(3);
  const std::array<Recorder::Result, 2> results{
      {{Layout::contiguous({s, b, heads, nope + d}), kv.dtype()},
       {Layout::contiguous({s, b, heads, kv.size(3) - nope}), kv.dtype()}}};
  const std::array<Value*, 4> inputs{&kv, &k_rope, &cos, &sin};
  std::vector<Value> made = kv.recorder().emit_many(OpKind::kLatentRopeKeyValue, inputs, results);
  return {.key = std::move(made[0]), .value = std::move(made[1])};
}

// make_row_id_map: for each token the rows that it goes to, their experts and how many; and what its first
// pass counts of each expert in blocks of 1024 tokens.
Routed te_permute(Value tokens, Value probs, Value routing_map, int64_t rows) {
  constexpr int64_t kBlock = 1024;
  Recorder& r = tokens.recorder();
  const int64_t n = routing_map.size(0), experts = routing_map.size(1);
  std::vector<Recorder::Result> results{{Layout::contiguous({n, experts * 2 + 1}), DType::kInt32},
                                        {Layout::contiguous({experts, divide_up(n, kBlock)}), DType::kInt32},
                                        {with_rows(tokens, rows), tokens.dtype()}};
  if (probs) results.push_back({Layout::contiguous({rows}), probs.dtype()});
  const std::array<Value*, 3> inputs{&tokens, &routing_map, &probs};
  std::vector<Value> made = r.emit_many(OpKind::kTePermute, inputs, results);
  made[1].reset();
  Routed out{.tokens = std::move(made[2]), .row_map = std::move(made[0])};
  if (made.size() > 3) out.probs = std::move(made[3]);
  return out;
}

Value te_unpermute(Value tokens, Value row_map, int64_t rows) {
  const Recorder::Result result{with_rows(tokens, rows), tokens.dtype()};
  return tokens.recorder().emit(OpKind::kTeUnpermute, {&tokens, &row_map}, result);
}

Routed te_sort_chunks(Value tokens, Value probs) {
  Recorder& r = tokens.recorder();
  std::vector<Recorder::Result> results{{Layout::contiguous({tokens.size(0)}), DType::kInt32},
                                        {with_rows(tokens, tokens.size(0)), tokens.dtype()}};
  if (probs) results.push_back({with_rows(probs, probs.size(0)), probs.dtype()});
  const std::array<Value*, 2> inputs{&tokens, &probs};
  std::vector<Value> made = r.emit_many(OpKind::kTeSortChunks, inputs, results);
  Routed out{.tokens = std::move(made[1]), .row_map = std::move(made[0])};
  if (made.size() > 2) out.probs = std::move(made[2]);
  return out;
}

// An op keeps no more tensors than a mask has bits: of many weights each dozen has a node of its own, one
// behind the other, and the first gives the gradient of x.
Value te_grouped_linear(Value x, const std::vector<Value>& weights, Value dummy_gradient) {
  constexpr size_t kWeightsOfNode = 12;
  Recorder& r = x.recorder();
  Value y;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    Value left = x, right = weights.front();
    const Recorder::Result result{Layout::contiguous({x.size(0), right.size(0)}), x.dtype()};
    y = r.emit(OpKind::kTeGroupedGemm, {&left, &right}, result);
  }
  const FusedAttr attributes{.adds_weight_gradient = dummy_gradient.is_defined()};
  for (size_t first = 0; first < weights.size(); first += kWeightsOfNode) {
    Value rows = first == 0 ? x : ops::detach(x);
    std::vector<Value> inputs{std::move(y), std::move(rows)};
    for (size_t i = first; i < std::min(weights.size(), first + kWeightsOfNode); ++i)
      inputs.push_back(weights[i]);
    inputs.push_back(dummy_gradient);
    std::vector<Value*> pointers;
    for (Value& value : inputs) pointers.push_back(&value);
    y = r.emit_in_place(OpKind::kTeGroupedLinear, pointers, attributes);
  }
  return y;
}

}  // namespace plimsoll::megatron
