#include "model/families/llama.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_llama(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_numerics(config, a, 1e-6);
  read_max_position(config, a, 2048);
  Attention attention = read_heads(config, a, KvHeads::kAsHeads, HeadDimKey::kOptional);
  read_rotary(config, a, attention);
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Mlp mlp = read_gated_mlp(config);
  mlp.has_bias = config.flag("mlp_bias", false);
  read_layers(config, a, {.attention = attention, .mlp = mlp});
}

void read_granite(ConfigReader& config, Architecture& a) {
  read_llama(config, a);
  a.embedding_scale = config.number("embedding_multiplier", 1);
  a.residual_scale = config.number("residual_multiplier", 1);
  a.attention_scale = config.number("attention_multiplier", 1);
  a.logits_scale = 1 / config.positive("logits_scaling", 1);
}

void read_mistral(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_numerics(config, a, 1e-6);
  read_max_position(config, a, 131072);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kOptional);
  read_rotary(config, a, attention);
  attention.window = read_window(config, a, 4096);
  a.attention_dropout = config.probability("attention_dropout", 0);
  read_layers(config, a, {.attention = attention, .mlp = read_gated_mlp(config)});
}

// Qwen2 and Qwen3: the last layers, from max_window_layers on, may see a window.
void read_qwen_layers(ConfigReader& config, Architecture& a, const Attention& attention) {
  read_layers(config, a, {.attention = attention, .mlp = read_gated_mlp(config)});
  const std::optional<int64_t> window = read_switched_window(config, a, 4096);
  const int64_t first_window = config.count("max_window_layers", 28, kMaxLayers);
  read_layer_types(config, a, window,
                   [&](size_t layer) { return window && static_cast<int64_t>(layer) >= first_window; });
}

void read_qwen2(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_numerics(config, a, 1e-6);
  read_max_position(config, a, 32768);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kOptional);
  read_rotary(config, a, attention);
  set_biases(attention, true, false);
  a.attention_dropout = config.probability("attention_dropout", 0);
  read_qwen_layers(config, a, attention);
}

void read_qwen3(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_numerics(config, a, 1e-6);
  read_max_position(config, a, 32768);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kRequired);
  read_rotary(config, a, attention);
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  attention.head_norm = HeadNorm::kPerHead;
  a.attention_dropout = config.probability("attention_dropout", 0);
  read_qwen_layers(config, a, attention);
}

void list_tensors(Architecture& a) {
  list_decoder(a, [](TensorList& list, const Architecture& a, const Layer& layer) {
    list_attention(list, a, layer.attention);
    list_gated_mlp(list, a, "mlp", layer.mlp->intermediate, layer.mlp->has_bias);
    list_two_norms(list, a);
  });
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

}  // namespace

std::vector<Family> llama_families() {
  return {
      {.name = "granite",
       .class_name = "GraniteForCausalLM",
       .read = read_granite,
       .list_tensors = list_tensors},
      {.name = "llama", .class_name = "LlamaForCausalLM", .read = read_llama, .list_tensors = list_tensors},
      {.name = "mistral",
       .class_name = "MistralForCausalLM",
       .read = read_mistral,
       .list_tensors = list_tensors},
      {.name = "qwen2", .class_name = "Qwen2ForCausalLM", .read = read_qwen2, .list_tensors = list_tensors},
      {.name = "qwen3", .class_name = "Qwen3ForCausalLM", .read = read_qwen3, .list_tensors = list_tensors},
  };
}

}  // namespace plimsoll
