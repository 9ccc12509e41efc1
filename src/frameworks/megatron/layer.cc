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

Projected self_attention(Writer& w, const Attention& attention, const Value& hidden, const Value& mask) {
  Projected mixed = normed_column_linear(w, "input_layernorm", "self_attention.linear_qkv", hidden, true);
  const Writer::Module module(w, "self_attention");
  std::vector<Value> qkv = query_key_value(w, attention, mixed.result);
  Value context = core_attention(w, attention, std::move(qkv), mask);
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
  Projected branch = self_attention(w, layer.attention, hidden, mask);
  Value sum = bias_dropout_add(branch.result, branch.bias, hidden, dropout);
  branch = {};
  hidden = std::move(sum);
  branch = feed_forward(w, *layer.mlp, hidden);
  sum = bias_dropout_add(branch.result, branch.bias, hidden, dropout);
  branch = {};
  return sum;
}

}  // namespace plimsoll::megatron
