#include "model/families/modernbert.h"

#include <fmt/format.h>

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

Attention read_attention(ConfigReader& config, Architecture& a) {
  Attention attention = read_equal_heads(config, a, "num_attention_heads");
  read_rotary(config, a, attention);
  attention.is_causal = false;
  attention.is_fused_qkv = true;
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  return attention;
}

void read_head(ConfigReader& config, Architecture& a) {
  a.is_masked_lm_head_transformed = true;
  a.has_head_bias = config.flag("decoder_bias", true);
  config.require_flag("classifier_bias", false, "the head's dense layer has no bias");
  config.require_flag("sparse_prediction", false, "logits are computed for all tokens");
  if (read_activation(config, "classifier_activation", Activation::kGelu) != Activation::kGelu)
    config.wrong("classifier_activation", "isn't \"gelu\"", "\"gelu\"");
}

// local_attention counts the tokens on both sides; a window here is those on one side.
void read_windows(ConfigReader& config, Architecture& a) {
  const int64_t both = config.optional_size("local_attention", kMaxPosition).value_or(128);
  if (both < 2)
    config.wrong("local_attention", fmt::format("is {}", both), "at least 2, a token on each side");
  const int64_t window = both / 2;
  const auto every =
      static_cast<size_t>(config.optional_size("global_attn_every_n_layers", kMaxLayers).value_or(3));
  read_layer_types(config, a, window, [every](size_t layer) { return layer % every != 0; });
}

void read_modernbert(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, true);
  read_max_position(config, a, 8192);
  a.task = Task::kMaskedLm;
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = config.flag("norm_bias", false)};
  a.has_embedding_norm = true;
  a.embedding_dropout = config.probability("embedding_dropout", 0);
  a.attention_dropout = config.probability("attention_dropout", 0);
  a.activation_dropout = config.probability("mlp_dropout", 0);
  const Attention attention = read_attention(config, a);
  const Mlp mlp{.intermediate = config.size("intermediate_size", kMaxIntermediate),
                .is_gated = true,
                .is_fused_gate_up = true,
                .has_bias = config.flag("mlp_bias", false),
                .activation = read_activation(config, "hidden_activation", Activation::kGelu)};
  read_layers(config, a, {.attention = attention, .mlp = mlp});
  read_windows(config, a);
  read_head(config, a);
}

// The first layer has no norm before its attention: the embeddings end in one.
void list_layer(TensorList& list, const Architecture& a, size_t index) {
  const Layer& layer = a.layers[index];
  const Extent heads = query_width(layer.attention);
  if (index > 0) list.norm("attn_norm", hidden_of(a), a.norm);
  list.linear("attn.Wqkv", {3 * heads.size, Dim::kHeads}, hidden_of(a), layer.attention.query_bias);
  list.linear("attn.Wo", hidden_of(a), heads, layer.attention.output_bias);
  list.norm("mlp_norm", hidden_of(a), a.norm);
  list.linear("mlp.Wi", {2 * layer.mlp->intermediate, Dim::kFfn}, hidden_of(a), layer.mlp->has_bias);
  list.linear("mlp.Wo", hidden_of(a), {layer.mlp->intermediate, Dim::kFfn}, layer.mlp->has_bias);
}

void list_modernbert(Architecture& a) {
  TensorList list(a);
  list.embedding("model.embeddings.tok_embeddings", vocab_of(a), hidden_of(a));
  list.norm("model.embeddings.norm", hidden_of(a), a.norm);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    list.begin_layer("model.layers", i);
    list_layer(list, a, i);
  }
  list.end_layers();
  list.norm("model.final_norm", hidden_of(a), a.norm);
  list.linear("head.dense", hidden_of(a), hidden_of(a), false);
  list.norm("head.norm", hidden_of(a), a.norm);
  if (a.is_tied) {
    list.tie("model.embeddings.tok_embeddings.weight", "decoder.weight");
    if (a.has_head_bias) list.parameter("decoder.bias", {vocab_of(a)});
  } else {
    list.linear("decoder", vocab_of(a), hidden_of(a), a.has_head_bias);
  }
  list_rotary_by_layer_type(list, a);
}

}  // namespace

std::vector<Family> modernbert_families() {
  return {{.name = "modernbert",
           .class_name = "ModernBertForMaskedLM",
           .read = read_modernbert,
           .list_tensors = list_modernbert,
           .harmless_keys = {"global_rope_theta", "local_rope_theta", "initializer_cutoff_factor",
                             "classifier_pooling", "classifier_dropout", "deterministic_flash_attn",
                             "reference_compile", "sparse_pred_ignore_index"}}};
}

}  // namespace plimsoll
