#include "model/families/gpt_neox.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_gpt_neox(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 2048);
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = true};
  a.is_parallel_residual = config.flag("use_parallel_residual", true);
  a.has_two_parallel_norms = a.is_parallel_residual;
  a.embedding_dropout = a.residual_dropout = config.probability("hidden_dropout", 0);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Attention attention = read_equal_heads(config, a, "num_attention_heads");
  read_rotary(config, a, attention,
              {.part = 0.25,
               .theta_key = {"rotary_emb_base", "rope_theta"},
               .part_key = {"rotary_pct", "partial_rotary_factor"}});
  const bool has_bias = config.flag("attention_bias", true);
  set_biases(attention, has_bias, has_bias);
  attention.is_fused_qkv = true;
  const Mlp mlp{.intermediate = config.size("intermediate_size", kMaxIntermediate),
                .has_bias = true,
                .activation = read_activation(config, "hidden_act", Activation::kGelu)};
  read_layers(config, a, {.attention = attention, .mlp = mlp});
}

void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
  list_two_norms(list, a);
  list.linear("attention.query_key_value", {3 * a.hidden, Dim::kHeads}, hidden_of(a),
              layer.attention.query_bias);
  list.linear("attention.dense", hidden_of(a), query_width(layer.attention), layer.attention.output_bias);
  list.linear("mlp.dense_h_to_4h", ffn, hidden_of(a), true);
  list.linear("mlp.dense_4h_to_h", hidden_of(a), ffn, true);
}

void list_gpt_neox(Architecture& a) {
  TensorList list(a);
  list.embedding("gpt_neox.embed_in", vocab_of(a), hidden_of(a));
  for (size_t i = 0; i < a.layers.size(); ++i) {
    list.begin_layer("gpt_neox.layers", i);
    list_layer(list, a, a.layers[i]);
  }
  list.end_layers();
  list.norm("gpt_neox.final_layer_norm", hidden_of(a), a.norm);
  if (a.is_tied) {
    list.tie("gpt_neox.embed_in.weight", "lm_head.weight");
  } else {
    list.linear("lm_head", vocab_of(a), hidden_of(a), false);
  }
  list_rotary_buffers(list, "gpt_neox.rotary_emb", a.layers.front().attention.rotary_dim);
}

}  // namespace

std::vector<Family> gpt_neox_families() {
  return {{.name = "gpt_neox",
           .class_name = "GPTNeoXForCausalLM",
           .read = read_gpt_neox,
           .list_tensors = list_gpt_neox}};
}

}  // namespace plimsoll
