#include "model/families/mixture.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_mixtral(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 131072);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kOptional);
  read_rotary(config, a, attention, {.theta = 1000000});
  attention.window = read_window(config, a);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Moe moe = read_moe(config, {"num_local_experts", "num_experts"}, "intermediate_size");
  moe.has_normalised_weights = true;
  moe.has_jitter = config.number("router_jitter_noise", 0) > 0;
  read_layers(config, a, {.attention = attention, .moe = moe});
}

void list_mixtral_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  list_attention(list, a, layer.attention);
  list.linear("mlp.gate", {layer.moe->experts, Dim::kExperts}, hidden_of(a), false);
  list_experts(list, a, "mlp.experts", *layer.moe);
  list_two_norms(list, a);
}

// Every decoder_sparse_step-th layer has experts, but those in mlp_only_layers.
void read_sparse_layers(ConfigReader& config, Architecture& a, const Attention& attention, const Moe& moe) {
  read_layers(config, a, {.attention = attention, .moe = moe});
  const int64_t step = config.optional_size("decoder_sparse_step", kMaxLayers).value_or(1);
  const std::vector<int64_t> dense = config.integers("mlp_only_layers").value_or(std::vector<int64_t>{});
  const auto is_dense = [&](int64_t layer) {
    return (layer + 1) % step != 0 || std::find(dense.begin(), dense.end(), layer) != dense.end();
  };
  for (size_t i = 0; i < a.layers.size(); ++i) {
    if (!is_dense(static_cast<int64_t>(i))) continue;
    a.layers[i].moe.reset();
    a.layers[i].mlp = Mlp{.is_gated = true, .activation = moe.activation};
  }
  // The dense layers' width matters only where there are such layers.
  const bool has_dense = std::any_of(a.layers.begin(), a.layers.end(), [](const Layer& l) { return l.mlp; });
  if (!has_dense) config.ignore("intermediate_size");
  const int64_t intermediate = has_dense ? config.size("intermediate_size", kMaxIntermediate) : 0;
  for (Layer& layer : a.layers) {
    if (layer.mlp) layer.mlp->intermediate = intermediate;
  }
}

void read_qwen2_moe(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 32768);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kOptional);
  read_rotary(config, a, attention);
  set_biases(attention, config.flag("qkv_bias", true), false);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Moe moe = read_moe(config, "num_experts", "moe_intermediate_size");
  moe.has_normalised_weights = config.flag("norm_topk_prob", false);
  moe.shared_intermediate = config.size("shared_expert_intermediate_size", kMaxIntermediate);
  moe.has_shared_gate = true;
  read_sparse_layers(config, a, attention, moe);
  const std::optional<int64_t> window = read_switched_window(config, a, 4096);
  const int64_t windows_end = config.count("max_window_layers", 28, kMaxLayers);
  read_layer_types(config, a, window, [&](size_t layer) {
    return window && layer % 2 == 0 && static_cast<int64_t>(layer) < windows_end;
  });
}

void read_qwen3_moe(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 32768);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kOptional);
  read_rotary(config, a, attention);
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  attention.head_norm = HeadNorm::kPerHead;
  attention.window = read_switched_window(config, a, 4096);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Moe moe = read_moe(config, {"num_experts", "num_local_experts"}, "moe_intermediate_size");
  moe.has_normalised_weights = config.flag("norm_topk_prob", false);
  read_sparse_layers(config, a, attention, moe);
}

void list_qwen2_mixture(TensorList& list, const Architecture& a, const Moe& moe) {
  list.linear("mlp.gate", {moe.experts, Dim::kExperts}, hidden_of(a), false);
  list_experts(list, a, "mlp.experts", moe);
  list_gated_mlp(list, a, "mlp.shared_expert", moe.shared_intermediate, false);
  list.linear("mlp.shared_expert_gate", {1, Dim::kNone}, hidden_of(a), false);
}

void list_qwen2_moe_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  list_attention(list, a, layer.attention);
  if (layer.moe) {
    list_qwen2_mixture(list, a, *layer.moe);
  } else {
    list_gated_mlp(list, a, "mlp", layer.mlp->intermediate, false);
  }
  list_two_norms(list, a);
}

void list_qwen3_moe_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  list_attention(list, a, layer.attention);
  if (layer.moe) {
    list_experts(list, a, "mlp.experts", *layer.moe);
    list.linear("mlp.gate", {layer.moe->experts, Dim::kExperts}, hidden_of(a), false);
  } else {
    list_gated_mlp(list, a, "mlp", layer.mlp->intermediate, false);
  }
  list_two_norms(list, a);
}

void read_minimax_m2(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 196608);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kRequired);
  const auto rotary_dim = config.optional_size("rotary_dim", attention.head_dim);
  const double part =
      rotary_dim ? static_cast<double>(*rotary_dim) / static_cast<double>(attention.head_dim) : 1;
  read_rotary(config, a, attention, {.theta = 5000000, .part = part});
  attention.head_norm = HeadNorm::kWholeProjection;
  a.attention_dropout = config.probability("attention_dropout", 0);
  Moe moe = read_moe(config, {"num_local_experts", "num_experts"}, "intermediate_size");
  moe.has_normalised_weights = moe.has_score_correction_bias = true;
  moe.has_jitter = config.number("router_jitter_noise", 0) > 0;
  config.require_flag("use_qk_norm", true, "Transformers always norms queries and keys");
  if (config.count("shared_intermediate_size", 0, kMaxIntermediate) > 0) {
    config.wrong("shared_intermediate_size", "isn't 0, but Transformers' code has no shared expert", "0");
  }
  if (config.flag("use_mtp", false)) {
    a.notes.push_back(
        "use_mtp: multi-token-prediction modules aren't part of the model in Transformers and aren't "
        "counted");
  }
  read_layers(config, a, {.attention = attention, .moe = moe});
}

void list_minimax_m2_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  list_mixtral_layer(list, a, layer);
  BufferTensor& bias = list.buffer("mlp.e_score_correction_bias", {layer.moe->experts}, 4);
  bias.has_model_dtype = bias.is_persistent = true;
}

template <LayerLister layer>
void list_tensors(Architecture& a) {
  list_decoder(a, layer);
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

}  // namespace

std::vector<Family> mixture_families() {
  return {
      {.name = "minimax_m2",
       .class_name = "MiniMaxM2ForCausalLM",
       .read = read_minimax_m2,
       .list_tensors = list_tensors<list_minimax_m2_layer>,
       .harmless_keys = {"qk_norm_type", "use_routing_bias", "mtp_transformer_layers", "num_mtp_modules"}},
      {.name = "mixtral",
       .class_name = "MixtralForCausalLM",
       .read = read_mixtral,
       .list_tensors = list_tensors<list_mixtral_layer>},
      {.name = "qwen2_moe",
       .class_name = "Qwen2MoeForCausalLM",
       .read = read_qwen2_moe,
       .list_tensors = list_tensors<list_qwen2_moe_layer>},
      {.name = "qwen3_moe",
       .class_name = "Qwen3MoeForCausalLM",
       .read = read_qwen3_moe,
       .list_tensors = list_tensors<list_qwen3_moe_layer>},
  };
}

}  // namespace plimsoll
