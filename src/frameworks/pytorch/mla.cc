// Multi-head latent attention. Source: transformers 5.24, models/deepseek_v3/modeling_deepseek_v3.py,
// DeepseekV3Attention, and DeepseekV2Attention beside it.
#include "frameworks/pytorch/decoder_attention.h"

namespace plimsoll::pytorch {
namespace {

Value queries(Eager& e, const Family& family, const LatentAttention& latent, const Value& hidden) {
  if (!latent.query_rank) return e.linear("q_proj", hidden);
  Value low = e.linear("q_a_proj", hidden);
  low = norm(e, family, "q_a_layernorm", low);
  return e.linear("q_b_proj", low);
}

void rotate(Eager& e, const LayerCall& call, Value& q, Value& k) {
  if (call.family.rotary == RotaryVariant::kComplex) {
    apply_complex_rotary(q, k, call.rotary, true);
  } else if (call.layer.attention.latent->is_rope_interleaved) {
    apply_interleaved_rotary(e, q, k, call.rotary);
  } else {
    apply_rotary(e, call.family, q, k, call.rotary);
  }
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

Attended latent_attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Attention& spec = call.layer.attention;
  const LatentAttention& latent = *spec.latent;
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const std::array<int64_t, 2> head{latent.nope_head_dim, latent.rope_head_dim};
  const std::array<int64_t, 2> low{latent.kv_rank, latent.rope_head_dim};

  Value q = ops::view(queries(e, call.family, latent, hidden), {b, s, -1, spec.head_dim});
  q = ops::transpose(std::move(q), 1, 2);
  std::vector<Value> q_parts = ops::split(q, head, -1);
  const Value compressed = e.linear("kv_a_proj_with_mqa", hidden);
  std::vector<Value> kv_parts = ops::split(compressed, low, -1);
  kv_parts[0] = norm(e, call.family, "kv_a_layernorm", kv_parts[0]);
  kv_parts[0] = ops::view(std::move(kv_parts[0]), {b, 1, s, latent.kv_rank});
  kv_parts[1] = ops::view(std::move(kv_parts[1]), {b, 1, s, latent.rope_head_dim});
  rotate(e, call, q_parts[1], kv_parts[1]);
  update_cache(call, kv_parts[0], kv_parts[1]);
  const Value query = e.cat({q_parts[0], q_parts[1]}, -1);
  const KeysAndValues expanded = expand(e, spec, kv_parts[0], kv_parts[1]);
  Attended out =
      attention_interface(e, attention_call(e, call), query, expanded.keys, expanded.values, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {b, s, -1}));
  out.output = e.linear("o_proj", out.output);
  return out;
}

}  // namespace plimsoll::pytorch
