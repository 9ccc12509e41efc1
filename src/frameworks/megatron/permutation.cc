#include "frameworks/megatron/permutation.h"

#include "program/ops_megatron_experts.h"

namespace plimsoll::megatron {

Permutation permuted(Writer& w, Value tokens, const Value& map, const Value& probs, int64_t rows) {
  Permutation out;
  if (w.settings().experts.fuses_permutation) {
    Routed routed = te_permute(std::move(tokens), probs, map, rows);
    return {.tokens = std::move(routed.tokens),
            .probs = std::move(routed.probs),
            .rows = std::move(routed.row_map)};
  }
  const int64_t n = map.size(0);
  Value by_expert = ops::clone_contiguous(ops::transpose(map, 0, 1));
  Value sorted = std::move(ops::sort(ops::view(by_expert, {-1}), 0)[1]);
  sorted = ops::slice(std::move(sorted), 0, 0, rows);
  out.rows = ops::with_scalar(OpKind::kRemainder, sorted, static_cast<double>(n));
  if (probs) {
    Value flat = ops::reshape(ops::contiguous(ops::transpose(probs, 0, 1)), {-1});
    out.probs = ops::index(std::move(flat), {sorted});
  }
  out.tokens = index_select(std::move(tokens), out.rows);
  return out;
}

// The routing map as int8, sorted for each expert; its first places.
Permutation permuted_to_capacity(Value tokens, const Value& map, const Value& probs, int64_t capacity) {
  Recorder& r = tokens.recorder();
  const int64_t n = map.size(0), experts = map.size(1);
  Permutation out;
  Value by_expert = ops::contiguous(ops::transpose(ops::cast(map, DType::kInt8), 0, 1));
  Value sorted = std::move(ops::sort(by_expert, 1)[1]);
  out.rows = ops::view(ops::contiguous(ops::slice(std::move(sorted), 1, 0, capacity)), {-1});
  Value flat = ops::view(ops::contiguous(ops::transpose(probs, 0, 1)), {-1});
  const Value experts_of_rows = ops::unsqueeze(ops::arange(r, experts), -1);
  Value places = ops::mul(experts_of_rows, static_cast<double>(n));
  places = ops::add(std::move(places), ops::view(out.rows, {experts, capacity}));
  out.probs = index_select(std::move(flat), ops::view(std::move(places), {-1}));
  out.tokens = index_select(std::move(tokens), out.rows);
  return out;
}

Value unpermuted(Writer& w, Value rows_of_tokens, const Value& rows, int64_t tokens, int64_t hidden) {
  if (w.settings().experts.fuses_permutation) return te_unpermute(std::move(rows_of_tokens), rows, tokens);
  Recorder& r = w.recorder();
  Value sum = ops::zeros(r, {tokens, hidden}, rows_of_tokens.dtype());
  if (!w.settings().is_deterministic)
    return scatter_add_rows_(std::move(sum), rows, std::move(rows_of_tokens));
  Value again = ops::zeros(r, {tokens, hidden}, rows_of_tokens.dtype());  // made once more
  sum = std::move(again);
  return index_add_(std::move(sum), rows, std::move(rows_of_tokens));
}

}  // namespace plimsoll::megatron
