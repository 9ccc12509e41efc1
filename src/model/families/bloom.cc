#include "model/families/bloom.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_bloom(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, true);
  a.max_position = config.optional_size("seq_length", kMaxPosition).value_or(2048);
  a.position = PositionKind::kAlibi;
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = true};
  a.has_embedding_norm = true;
  a.residual_dropout = config.probability("hidden_dropout", 0);
  a.attention_dropout = config.probability("attention_dropout", 0);
  config.require_flag("apply_residual_connection_post_layernorm", false,
                      "residuals branch off before the norm");
  Attention attention = read_equal_heads(config, a, {"n_head", "num_attention_heads"});
  set_biases(attention, true, true);
  attention.is_fused_qkv = true;
  const Mlp mlp{.intermediate = 4 * a.hidden, .has_bias = true, .activation = Activation::kGeluBloom};
  read_layers(config, a, {.attention = attention, .mlp = mlp}, {"n_layer", "num_hidden_layers"});
}

void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
  list.norm("input_layernorm", hidden_of(a), a.norm);
  list.linear("self_attention.query_key_value", {3 * a.hidden, Dim::kHeads}, hidden_of(a), true);
  list.linear("self_attention.dense", hidden_of(a), query_width(layer.attention), true);
  list.norm("post_attention_layernorm", hidden_of(a), a.norm);
  list.linear("mlp.dense_h_to_4h", ffn, hidden_of(a), true);
  list.linear("mlp.dense_4h_to_h", hidden_of(a), ffn, true);
}

void list_bloom(Architecture& a) {
  TensorList list(a);
  list.embedding("transformer.word_embeddings", vocab_of(a), hidden_of(a));
  list.norm("transformer.word_embeddings_layernorm", hidden_of(a), a.norm);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    list.begin_layer("transformer.h", i);
    list_layer(list, a, a.layers[i]);
  }
  list.end_layers();
  list.norm("transformer.ln_f", hidden_of(a), a.norm);
  if (a.is_tied) {
    list.tie("transformer.word_embeddings.weight", "lm_head.weight");
  } else {
    list.linear("lm_head", vocab_of(a), hidden_of(a), false);
  }
}

}  // namespace

std::vector<Family> bloom_families() {
  return {{.name = "bloom",
           .class_name = "BloomForCausalLM",
           .read = read_bloom,
           .list_tensors = list_bloom,
           .harmless_keys = {"slow_but_exact", "n_inner", "offset_alibi", "masked_softmax_fusion",
                             "skip_bias_add", "skip_bias_add_qkv", "unk_token_id",
                             "attention_softmax_in_fp32", "bias_dropout_fusion"}}};
}

}  // namespace plimsoll
