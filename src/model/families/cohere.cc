#include "model/families/cohere.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_cohere(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, true);
  read_max_position(config, a, 8192);
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = false};
  a.is_parallel_residual = true;
  a.logits_scale = config.number("logit_scale", 0.0625);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Attention attention = read_heads(config, a, KvHeads::kAsHeads, HeadDimKey::kOptional);
  read_rotary(config, a, attention, {.theta = 500000});
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  if (config.flag("use_qk_norm", false)) attention.head_norm = HeadNorm::kPerHead;
  read_layers(config, a, {.attention = attention, .mlp = read_gated_mlp(config)});
}

// The norms of the heads have weights of their own for every head: [heads, head_dim].
void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  Attention projections = layer.attention;
  projections.head_norm = HeadNorm::kNone;
  list_attention(list, a, projections);
  if (layer.attention.head_norm == HeadNorm::kPerHead) {
    const Extent head_dim{layer.attention.head_dim, Dim::kHeadDim};
    list.parameter("self_attn.q_norm.weight", {{layer.attention.heads, Dim::kHeads}, head_dim});
    list.parameter("self_attn.k_norm.weight", {{layer.attention.kv_heads, Dim::kKvHeads}, head_dim});
  }
  list_gated_mlp(list, a, "mlp", layer.mlp->intermediate, false);
  list.norm("input_layernorm", hidden_of(a), a.norm);
}

void list_cohere(Architecture& a) {
  list_decoder(a, list_layer);
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

}  // namespace

std::vector<Family> cohere_families() {
  return {{.name = "cohere",
           .class_name = "CohereForCausalLM",
           .read = read_cohere,
           .list_tensors = list_cohere}};
}

}  // namespace plimsoll
