#include "model/families/falcon.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

// New decoder (40b, 180b): num_kv_heads; older ones: one key and value head (multi_query) or one per head.
Attention read_attention(ConfigReader& config, Architecture& a, bool is_new, bool has_bias) {
  Attention attention = read_equal_heads(config, a, {"num_attention_heads", "n_head"});
  const bool is_multi_query = config.flag("multi_query", true);
  if (is_new) {
    attention.kv_heads = config.size("num_kv_heads", kMaxHeads);
    if (attention.heads % attention.kv_heads != 0) {
      config.contradiction("num_kv_heads", "doesn't divide num_attention_heads",
                           "a divisor of the number of heads");
    }
  } else {
    config.ignore("num_kv_heads");
    attention.kv_heads = is_multi_query ? 1 : attention.heads;
  }
  attention.is_fused_qkv = true;
  attention.is_fused_by_group = is_new;
  set_biases(attention, has_bias, has_bias);
  return attention;
}

void read_positions(ConfigReader& config, Architecture& a, Attention& attention) {
  read_max_position(config, a, 2048);
  if (config.flag("alibi", false)) {
    a.position = PositionKind::kAlibi;
  } else {
    read_rotary(config, a, attention);
  }
}

void read_residual(ConfigReader& config, Architecture& a, bool is_new) {
  a.is_parallel_residual = config.flag("parallel_attn", true);
  if (is_new && !a.is_parallel_residual) {
    config.contradiction("parallel_attn", "is false in a new_decoder_architecture, which is always parallel",
                         "true");
  }
  const int64_t norms = config.optional_size("num_ln_in_parallel_attn", 2).value_or(is_new ? 2 : 1);
  if (!is_new && norms == 2) {
    config.contradiction("num_ln_in_parallel_attn", "is 2 without new_decoder_architecture", "1");
  }
  a.has_two_parallel_norms = norms == 2;
}

void read_falcon(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, true);
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = true};
  a.residual_dropout = config.probability("hidden_dropout", 0);
  a.attention_dropout = config.probability("attention_dropout", 0);
  const bool is_new = config.flag("new_decoder_architecture", false);
  const bool has_bias = config.flag("bias", false);
  read_residual(config, a, is_new);
  Attention attention = read_attention(config, a, is_new, has_bias);
  read_positions(config, a, attention);
  const Mlp mlp{
      .intermediate = config.optional_size("ffn_hidden_size", kMaxIntermediate).value_or(4 * a.hidden),
      .has_bias = has_bias,
      .activation = read_activation(config, "activation", Activation::kGelu)};
  read_layers(config, a, {.attention = attention, .mlp = mlp}, {"num_hidden_layers", "n_layer"});
}

void list_norms(TensorList& list, const Architecture& a) {
  if (!a.is_parallel_residual) {
    list.norm("post_attention_layernorm", hidden_of(a), a.norm);
    list.norm("input_layernorm", hidden_of(a), a.norm);
  } else if (a.has_two_parallel_norms) {
    list.norm("ln_attn", hidden_of(a), a.norm);
    list.norm("ln_mlp", hidden_of(a), a.norm);
  } else {
    list.norm("input_layernorm", hidden_of(a), a.norm);
  }
}

void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  const Attention& attention = layer.attention;
  const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
  const int64_t qkv = query_width(attention).size + 2 * key_width(attention).size;
  list.linear("self_attention.query_key_value", {qkv, Dim::kHeads}, hidden_of(a), attention.query_bias);
  list.linear("self_attention.dense", hidden_of(a), query_width(attention), attention.output_bias);
  list.linear("mlp.dense_h_to_4h", ffn, hidden_of(a), layer.mlp->has_bias);
  list.linear("mlp.dense_4h_to_h", hidden_of(a), ffn, layer.mlp->has_bias);
  list_norms(list, a);
}

void list_falcon(Architecture& a) {
  TensorList list(a);
  list.embedding("transformer.word_embeddings", vocab_of(a), hidden_of(a));
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
  list_rotary_buffers(list, "transformer.rotary_emb", a.layers.front().attention.head_dim);
}

}  // namespace

std::vector<Family> falcon_families() {
  return {{.name = "falcon",
           .class_name = "FalconForCausalLM",
           .read = read_falcon,
           .list_tensors = list_falcon,
           .harmless_keys = {"apply_residual_connection_post_layernorm"}}};
}

}  // namespace plimsoll
