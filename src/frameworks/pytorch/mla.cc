// Multi-head latent attention. Source: transformers 5.24, models/deepseek_v3/modeling_deepseek_v3.py,
// DeepseekV3Attention, and DeepseekV2Attention beside it.
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

Value queries(Eager& e, const Family& family, const LatentAttention& latent, const Value& hidden) {
  if (!latent.query_rank) return e.linear("q_proj", hidden);
  Value low = e.linear("q_a_proj", hidden);
  low = norm(e, family, "q_a_layernorm", low);
  return e.linear("q_b_proj", low);
}

// [q1 * cos - q2 * sin, q2 * cos + q1 * sin]
Value rotated_pairs(Eager& e, const Value& even, const Value& odd, const Value& cos, const Value& sin) {
  std::vector<Value> parts;
  {
    Value straight = ops::mul(even, cos);
    Value turned = ops::mul(odd, sin);
    parts.push_back(ops::sub(std::move(straight), std::move(turned)));
  }
  {
    Value straight = ops::mul(odd, cos);
    Value turned = ops::mul(even, sin);
    parts.push_back(ops::add(std::move(straight), std::move(turned)));
  }
  return e.cat(std::move(parts), -1);
}

// apply_rotary_pos_emb_interleave
void apply_interleaved(Eager& e, Value& q, Value& k, const Rotary& rotary) {
  const int64_t half = rotary.cos.size(-1) / 2;
  const auto first_half = [&](const Value& x) { return ops::unsqueeze(ops::slice(x, -1, 0, half), 1); };
  const Value cos = first_half(rotary.cos), sin = first_half(rotary.sin);
  const auto every_second = [&](const Value& x, int64_t start) { return ops::slice(x, -1, start, half, 2); };
  const Value q1 = every_second(q, 0), q2 = every_second(q, 1);
  const Value k1 = every_second(k, 0), k2 = every_second(k, 1);
  Value new_q = rotated_pairs(e, q1, q2, cos, sin);
  Value new_k = rotated_pairs(e, k1, k2, cos, sin);
  q = std::move(new_q);
  k = std::move(new_k);
}

struct KeysAndValues {
  Value keys, values;  // [b, heads, s, head_dim], [b, heads, s, value_head_dim]
};

// expand_kv: compressed [b, 1, s, kv_rank], k_rotated [b, 1, s, rope_head_dim].
KeysAndValues expand(Eager& e, const Attention& spec, const Value& compressed, const Value& k_rotated) {
  const LatentAttention& latent = *spec.latent;
  const int64_t b = compressed.size(0), s = compressed.size(2);
  const std::array<int64_t, 2> widths{latent.nope_head_dim, spec.value_head_dim};
  Value both = ops::view(e.linear("kv_b_proj", compressed), {b, s, -1, widths[0] + widths[1]});
  both = ops::transpose(std::move(both), 1, 2);
  std::vector<Value> parts = ops::split(both, widths, -1);
  const Value rotated = ops::expand(k_rotated, {-1, parts[0].size(1), -1, -1});
  Value keys = ops::empty(e.recorder(), {b, both.size(1), s, spec.head_dim}, both.dtype());
  keys = ops::copy_into_slice_(std::move(keys), parts[0], -1, 0);
  keys = ops::copy_into_slice_(std::move(keys), rotated, -1, latent.nope_head_dim);
  return {.keys = std::move(keys), .values = std::move(parts[1])};
}

}  // namespace

Value latent_attention(Eager& e, const Family& family, const Attention& spec, const AttentionCall& core,
                       const Value& hidden, const Rotary& rotary, const Value& mask) {
  const LatentAttention& latent = *spec.latent;
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const std::array<int64_t, 2> head{latent.nope_head_dim, latent.rope_head_dim};
  const std::array<int64_t, 2> low{latent.kv_rank, latent.rope_head_dim};

  Value q = ops::view(queries(e, family, latent, hidden), {b, s, -1, spec.head_dim});
  q = ops::transpose(std::move(q), 1, 2);
  std::vector<Value> q_parts = ops::split(q, head, -1);
  const Value compressed = e.linear("kv_a_proj_with_mqa", hidden);
  std::vector<Value> kv_parts = ops::split(compressed, low, -1);
  kv_parts[0] = norm(e, family, "kv_a_layernorm", kv_parts[0]);
  kv_parts[0] = ops::view(std::move(kv_parts[0]), {b, 1, s, latent.kv_rank});
  kv_parts[1] = ops::view(std::move(kv_parts[1]), {b, 1, s, latent.rope_head_dim});
  if (family.rotary == RotaryVariant::kComplex) {
    apply_complex_rotary(q_parts[1], kv_parts[1], rotary, true);
  } else if (latent.is_rope_interleaved) {
    apply_interleaved(e, q_parts[1], kv_parts[1], rotary);
  } else {
    apply_rotary(e, family, q_parts[1], kv_parts[1], rotary);
  }
  const Value query = e.cat({q_parts[0], q_parts[1]}, -1);
  const KeysAndValues expanded = expand(e, spec, kv_parts[0], kv_parts[1]);
  Value out = attention_core(e, core, query, expanded.keys, expanded.values, mask);
  out = ops::contiguous(ops::reshape(out, {b, s, -1}));
  out = e.linear("o_proj", out);
  return out;
}

}  // namespace plimsoll::pytorch
