// MLASelfAttention with Transformer Engine's modules: queries, and keys with values, by way of a low rank.
//
// x -> q_down -> (norm) q_up -> queries [nope | rope]
// x -> kv_down -> latent -> (norm) kv_up -> keys' nope, values;  the rest of kv_down: the keys' shared rope
//
// Source: megatron/core/transformer/multi_latent_attention.py, models/common/embeddings/rope_utils.py.
#include <array>

#include "frameworks/megatron/writer.h"
#include "program/ops_megatron_experts.h"

namespace plimsoll::megatron {
namespace {

// TELinear with parallel_mode "duplicated": every rank has the whole weight, for its part of the sequence.
Value whole_linear(Writer& w, std::string_view name, const Value& x) {
  const Writer::Module module(w, name);
  w.made_once(MadeOnce::Kind::kTeWorkspace);
  return te_linear(x, w.parameter("weight"), {}, {.dummy_gradient = w.dummy_gradient()});
}

// Behind its norm where there is one, in one module.
Value up_linear(Writer& w, std::string_view name, const Value& x) {
  Value norm;
  {
    const Writer::Module module(w, name);
    norm = w.parameter("layer_norm_weight");
  }
  if (norm) return te_normed_column_linear(w, name, x, false).result;
  return column_linear(w, name, ops::contiguous(x)).result;
}

// The angles of all positions: a cache of the module, made by the first forward.
Value angles(Writer& w, int64_t dim) {
  return w.made_once(w.path() + ".rotary_pos_emb", Layout::contiguous({w.job().batch.sequence, 1, 1, dim}),
                     DType::kFloat32);
}
Value table(Writer& w, std::string_view name, int64_t dim) {
  return w.made_once(w.path() + ".rotary_pos_emb." + std::string(name),
                     Layout::contiguous({w.job().batch.sequence, 1, 1, dim}), w.dtype());
}

// _apply_rotary_pos_emb_bshd with mla_rotary_interleaved: even places first, odd ones behind.
Value turned(const Value& x, const Value& angles) {
  const int64_t half = x.size(-1) / 2;
  Value t = ops::cat({ops::slice(x, 3, 0, half, 2), ops::slice(x, 3, 1, half, 2)}, -1);
  const auto factor = [&](OpKind kind) {
    return ops::cast(ops::mul(ops::unary(kind, angles), 1.0), t.dtype());
  };
  const Value cos = factor(OpKind::kCos), sin = factor(OpKind::kSin);
  Value straight = ops::mul(t, cos);
  std::vector<Value> halves = ops::chunk(t, 2, -1);
  Value back = ops::neg(std::move(halves[1]));
  back = ops::cat({std::move(back), halves[0]}, -1);
  halves.clear();
  Value across = ops::mul(std::move(back), sin);
  return ops::add(std::move(straight), std::move(across));
}

struct Projections {
  Value q, kv, k_rope;  // [s, b, heads, ..]; k_rope [s, b, 1, d]
};

std::vector<Value> with_plain_rope(Writer& w, const Attention& attention, Projections p) {
  const LatentAttention& latent = *attention.latent;
  const Value positions = angles(w, latent.rope_head_dim);
  const std::array<int64_t, 2> of_q{latent.nope_head_dim, latent.rope_head_dim},
      of_kv{latent.nope_head_dim, attention.value_head_dim};
  std::vector<Value> q = ops::split(p.q, of_q, 3), kv = ops::split(p.kv, of_kv, 3);
  q[1] = turned(q[1], positions);
  Value rope = turned(p.k_rope, positions);
  Value query = ops::cat({q[0], q[1]}, -1);
  rope = ops::expand(std::move(rope), {-1, -1, p.q.size(2), -1});
  Value key = ops::cat({kv[0], rope}, -1);
  Value value = ops::contiguous(kv[1]);
  return {std::move(query), std::move(key), std::move(value)};
}

std::vector<Value> with_fused_rope(Writer& w, const Attention& attention, Projections p) {
  const LatentAttention& latent = *attention.latent;
  angles(w, latent.rope_head_dim);
  const Value cos = table(w, "cos_cached", latent.rope_head_dim),
              sin = table(w, "sin_cached", latent.rope_head_dim);
  Value query = latent_rope_query(std::move(p.q), cos, sin);
  KeyValue made = latent_rope_key_value(std::move(p.kv), std::move(p.k_rope), cos, sin, latent.nope_head_dim);
  return {std::move(query), std::move(made.key), std::move(made.value)};
}

}  // namespace

Projected latent_attention(Writer& w, const Attention& attention, const Value& hidden, const Value& mask) {
  const LatentAttention& latent = *attention.latent;
  const Value x = norm(w, "input_layernorm", hidden);
  const Writer::Module module(w, "self_attention");
  const int64_t heads = attention.heads / w.tensor_ranks();
  Value compressed = latent.query_rank ? whole_linear(w, "linear_q_down_proj", x) : x;
  Value down = whole_linear(w, "linear_kv_down_proj", x);
  const std::array<int64_t, 2> parts{latent.kv_rank, latent.rope_head_dim};
  std::vector<Value> split = ops::split(down, parts, 2);
  Value k_rope = split[1];
  if (w.sequence_ranks() > 1)
    k_rope = gather_from_sequence_parallel(ops::contiguous(k_rope), w.sequence_ranks());
  Projections p{
      .q = up_linear(w, latent.query_rank ? "linear_q_up_proj" : "linear_q_proj", std::move(compressed))};
  const int64_t s = p.q.size(0), b = p.q.size(1);
  p.q = ops::view(std::move(p.q), {s, b, heads, attention.head_dim});
  p.kv = up_linear(w, "linear_kv_up_proj", split[0]);
  p.kv = ops::view(std::move(p.kv), {s, b, heads, latent.nope_head_dim + attention.value_head_dim});
  p.k_rope = ops::unsqueeze(std::move(k_rope), -2);
  const bool is_fused = w.settings().fuses_rope && w.architecture().position == PositionKind::kRotary;
  std::vector<Value> qkv =
      is_fused ? with_fused_rope(w, attention, std::move(p)) : with_plain_rope(w, attention, std::move(p));
  Value context = core_attention(w, attention, std::move(qkv), mask);
  return row_linear(w, "linear_proj", std::move(context));
}

}  // namespace plimsoll::megatron
