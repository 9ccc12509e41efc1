#include "model/families/gemma.h"

#include <cmath>

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

Attention read_attention(ConfigReader& config, Architecture& a, const RotaryDefaults& rotary = {}) {
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kRequired);
  read_rotary(config, a, attention, rotary);
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  a.attention_dropout = config.probability("attention_dropout", 0);
  return attention;
}

Mlp read_mlp(ConfigReader& config, Activation activation) {
  return {.intermediate = config.size("intermediate_size", kMaxIntermediate),
          .is_gated = true,
          .activation = activation};
}

void read_start(ConfigReader& config, Architecture& a, int64_t max_position) {
  read_sizes(config, a, true);
  read_max_position(config, a, max_position);
  a.embedding_scale = std::sqrt(static_cast<double>(a.hidden));
  config.require_flag("use_bidirectional_attention", false, "only causal attention is modelled");
}

// Gemma's published files say "gelu" and mean its tanh form.
void read_gemma(ConfigReader& config, Architecture& a) {
  read_start(config, a, 8192);
  const Attention attention = read_attention(config, a);
  Activation activation = read_activation(config, "hidden_act", Activation::kGeluTanh);
  config.ignore("hidden_activation");
  if (activation == Activation::kGelu) activation = Activation::kGeluTanh;
  read_layers(config, a, {.attention = attention, .mlp = read_mlp(config, activation)});
}

// Beyond Gemma: norms on both sides, soft caps, windows.
void read_later_gemma(ConfigReader& config, Architecture& a, Attention attention) {
  a.has_post_norms = true;
  a.attention_scale = 1 / std::sqrt(config.positive("query_pre_attn_scalar", 256));
  config.ignore("hidden_act");
  const Activation activation = read_activation(config, "hidden_activation", Activation::kGeluTanh);
  read_layers(config, a, {.attention = attention, .mlp = read_mlp(config, activation)});
}

// A soft cap that is absent has a default, one that is null is off.
std::optional<double> read_softcap(ConfigReader& config, const char* key, double by_default) {
  if (!config.is_there(key)) return by_default;
  return config.positive(key);
}

void read_gemma2(ConfigReader& config, Architecture& a) {
  read_start(config, a, 8192);
  Attention attention = read_attention(config, a);
  attention.score_softcap = read_softcap(config, "attn_logit_softcapping", 50);
  a.final_softcap = read_softcap(config, "final_logit_softcapping", 30);
  read_later_gemma(config, a, attention);
  read_layer_types(config, a, read_window(config, a, 4096), [](size_t layer) { return layer % 2 == 0; });
}

void read_gemma3(ConfigReader& config, Architecture& a) {
  read_start(config, a, 131072);
  Attention attention = read_attention(config, a, {.theta = 1000000});
  attention.head_norm = HeadNorm::kPerHead;
  attention.score_softcap = config.positive("attn_logit_softcapping");
  a.final_softcap = config.positive("final_logit_softcapping");
  read_later_gemma(config, a, attention);
  const auto pattern =
      config.optional_size({"sliding_window_pattern", "_sliding_window_pattern"}, kMaxLayers).value_or(6);
  read_layer_types(config, a, read_window(config, a, 4096),
                   [&](size_t layer) { return (static_cast<int64_t>(layer) + 1) % pattern != 0; });
}

void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  list_attention(list, a, layer.attention);
  list_gated_mlp(list, a, "mlp", layer.mlp->intermediate, false);
  list_two_norms(list, a);
  if (!a.has_post_norms) return;
  list.norm("pre_feedforward_layernorm", hidden_of(a), a.norm);
  list.norm("post_feedforward_layernorm", hidden_of(a), a.norm);
}

void list_gemma(Architecture& a) {
  list_decoder(a, list_layer);
  TensorList list(a);
  list.buffer("model.embed_tokens.embed_scale", {}, 4).has_model_dtype = true;
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

void list_gemma3(Architecture& a) {
  list_decoder(a, list_layer);
  TensorList list(a);
  list.buffer("model.embed_tokens.embed_scale", {}, 4).has_model_dtype = true;
  list_rotary_by_layer_type(list, a);
}

}  // namespace

std::vector<Family> gemma_families() {
  return {
      {.name = "gemma", .class_name = "GemmaForCausalLM", .read = read_gemma, .list_tensors = list_gemma},
      {.name = "gemma2", .class_name = "Gemma2ForCausalLM", .read = read_gemma2, .list_tensors = list_gemma},
      {.name = "gemma3_text",
       .class_name = "Gemma3ForCausalLM",
       .read = read_gemma3,
       .list_tensors = list_gemma3,
       .harmless_keys = {"rope_local_base_freq", "sliding_window_pattern", "_sliding_window_pattern"}},
  };
}

}  // namespace plimsoll
