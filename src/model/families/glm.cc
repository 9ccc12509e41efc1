#include "model/families/glm.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"
#include "model/families/shared_mixture.h"

namespace plimsoll {
namespace {

void read_glm4(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 131072);
  a.has_post_norms = true;
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kRequired);
  read_rotary(config, a, attention, {.part = 0.5});
  set_biases(attention, config.flag("attention_bias", true), false);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Mlp mlp = read_gated_mlp(config);
  mlp.is_fused_gate_up = true;
  read_layers(config, a, {.attention = attention, .mlp = mlp});
}

void list_glm4_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  list_attention(list, a, layer.attention);
  list.linear("mlp.gate_up_proj", {2 * layer.mlp->intermediate, Dim::kFfn}, hidden_of(a), false);
  list.linear("mlp.down_proj", hidden_of(a), {layer.mlp->intermediate, Dim::kFfn}, false);
  list_two_norms(list, a);
  list.norm("post_self_attn_layernorm", hidden_of(a), a.norm);
  list.norm("post_mlp_layernorm", hidden_of(a), a.norm);
}

void read_glm4_moe(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 131072);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kOptional);
  read_rotary(config, a, attention, {.part = 0.5});
  set_biases(attention, config.flag("attention_bias", false), false);
  if (config.flag("use_qk_norm", false)) attention.head_norm = HeadNorm::kPerHead;
  a.attention_dropout = config.probability("attention_dropout", 0);
  Moe moe = read_shared_moe(config);
  moe.has_score_correction_bias = moe.is_group_limited = true;
  moe.has_normalised_weights = config.flag("norm_topk_prob", true);
  read_mixed_layers(config, a, {.attention = attention, .moe = moe}, false);
  a.prediction_layers = config.count({"num_nextn_predict_layers", "num_mtp_layers"}, 0, 64);
}

void list_glm4_moe_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  list_attention(list, a, layer.attention);
  list_shared_mixture(list, a, layer);
  list_two_norms(list, a);
}

template <LayerLister layer>
void list_glm(Architecture& a) {
  list_decoder(a, layer);
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
  a.prediction_parameters = prediction_layer_parameters(a);
}

}  // namespace

std::vector<Family> glm_families() {
  return {
      {.name = "glm4",
       .class_name = "Glm4ForCausalLM",
       .read = read_glm4,
       .list_tensors = list_glm<list_glm4_layer>},
      {.name = "glm4_moe",
       .class_name = "Glm4MoeForCausalLM",
       .read = read_glm4_moe,
       .list_tensors = list_glm<list_glm4_moe_layer>},
  };
}

}  // namespace plimsoll
