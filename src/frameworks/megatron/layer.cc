#include <array>

#include "frameworks/megatron/writer.h"

namespace plimsoll::megatron {
namespace {

// SelfAttention.get_query_key_value_tensors: each group's queries, key and value lie side by side.
std::vector<Value> query_key_value(Writer& w, const Attention& attention, const Value& mixed) {
  const int64_t s = mixed.size(0), b = mixed.size(1), d = attention.head_dim;
  const int64_t groups = attention.kv_heads / w.tensor_ranks();
  const int64_t queries = attention.heads / attention.kv_heads;
  const Value by_group = ops::view(mixed, {s, b, groups, (queries + 2) * d});
  const std::array<int64_t, 3> lengths{queries * d, d, d};
  std::vector<Value> qkv = ops::split(by_group, lengths, 3);
  if (queries > 1) qkv[0] = ops::reshape(std::move(qkv[0]), {s, b, groups * queries, d});
  return qkv;
}

// RotaryEmbedding's angles of all positions, which are made once and kept; the rotated part of the head comes
// first. Source: megatron/core/models/common/embeddings/{rotary_pos_embedding,rope_utils}.py.
Value angles(Writer& w, const Attention& attention) {
  return w.made_once("rotary_pos_emb",
                     Layout::contiguous({w.job().batch.sequence, 1, 1, attention.rotary_dim}),
                     DType::kFloat32);
}

// _rotate_half
Value rotated_half(Value x, bool is_interleaved) {
  const int64_t half = x.size(-1) / 2;
  if (!is_interleaved) {
    std::vector<Value> parts = ops::chunk(x, 2, -1);
    Value turned = ops::neg(std::move(parts[1]));
    return ops::cat({turned, parts[0]}, -1);
  }
  const std::vector<int64_t> shape(x.layout().shape().begin(), x.layout().shape().end());
  Value even = ops::slice(x, 3, 0, half, 2), odd = ops::slice(x, 3, 1, half, 2);
  Value turned = ops::neg(std::move(odd));
  return ops::view(ops::stack({std::move(turned), even}, -1), shape);
}

// _apply_rotary_pos_emb_bshd
Value rotary(Writer& w, const Attention& attention, Value x, const Value& table) {
  if (w.settings().fuses_rope) return te_rotary(std::move(x), table);
  const int64_t rest = attention.head_dim - attention.rotary_dim;
  Value turned = ops::slice(x, 3, 0, attention.rotary_dim),
        passed = ops::slice(x, 3, attention.rotary_dim, rest);
  x.reset();
  const auto factor = [&](OpKind kind) {
    return ops::cast(ops::mul(ops::unary(kind, table), 1.0), turned.dtype());
  };
  const Value cos = factor(OpKind::kCos), sin = factor(OpKind::kSin);
  Value straight = ops::mul(turned, cos);
  Value half = rotated_half(turned, w.settings().is_rope_interleaved);
  Value across = ops::mul(std::move(half), sin);
  turned = ops::add(std::move(straight), std::move(across));
  return ops::cat({turned, passed}, -1);
}

// The norms of each head's queries and keys, then positions.
void prepare(Writer& w, const Attention& attention, std::vector<Value>& qkv) {
  if (attention.head_norm == HeadNorm::kPerHead) {
    qkv[0] = norm(w, "q_layernorm", ops::contiguous(qkv[0]));
    qkv[1] = norm(w, "k_layernorm", ops::contiguous(qkv[1]));
  }
  if (attention.rotary_dim == 0) return;
  const Value table = angles(w, attention);
  for (int i = 0; i < 2; ++i)
    qkv[static_cast<size_t>(i)] = rotary(w, attention, std::move(qkv[static_cast<size_t>(i)]), table);
}

Projected self_attention(Writer& w, const Attention& attention, const Value& hidden, const Value& mask) {
  Projected mixed = normed_column_linear(w, "input_layernorm", "self_attention.linear_qkv", hidden, true);
  const Writer::Module module(w, "self_attention");
  std::vector<Value> qkv = query_key_value(w, attention, mixed.result);
  prepare(w, attention, qkv);
  Value context = core_attention(w, attention, qkv, mask);
  return row_linear(w, "linear_proj", std::move(context));
}

// bias_gelu_impl and bias_swiglu_impl, or the activation function alone.
Value activated(Writer& w, const Mlp& mlp, Projected wide) {
  if (mlp.is_gated) return bias_swiglu(std::move(wide.result), std::move(wide.bias));
  if (w.settings().fuses_bias_activation) return bias_gelu(std::move(wide.result), std::move(wide.bias));
  if (wide.bias) wide.result = ops::add(std::move(wide.result), wide.bias);
  return ops::gelu(std::move(wide.result));
}

Projected feed_forward(Writer& w, const Mlp& mlp, const Value& hidden) {
  Projected wide = normed_column_linear(w, "pre_mlp_layernorm", "mlp.linear_fc1", hidden, false);
  const Writer::Module module(w, "mlp");
  Value active = activated(w, mlp, std::move(wide));
  return row_linear(w, "linear_fc2", std::move(active));
}

}  // namespace

Value transformer_layer(Writer& w, const Layer& layer, Value hidden, const Value& mask) {
  const double dropout = w.architecture().residual_dropout;
  Projected branch = layer.attention.latent ? latent_attention(w, layer.attention, hidden, mask)
                                            : self_attention(w, layer.attention, hidden, mask);
  Value sum = bias_dropout_add(branch.result, branch.bias, hidden, dropout);
  branch = {};
  hidden = std::move(sum);
  if (layer.moe)
    branch.result = expert_layer(w, *layer.moe, hidden);
  else
    branch = feed_forward(w, *layer.mlp, hidden);
  sum = bias_dropout_add(branch.result, branch.bias, hidden, dropout);
  branch = {};
  return sum;
}

}  // namespace plimsoll::megatron
