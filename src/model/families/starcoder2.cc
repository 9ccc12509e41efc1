#include "model/families/starcoder2.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_starcoder2(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, true);
  read_max_position(config, a, 4096);
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = true};
  a.embedding_dropout = config.probability("embedding_dropout", 0);
  a.residual_dropout = config.probability("residual_dropout", 0);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kOptional);
  read_rotary(config, a, attention);
  attention.window = read_window(config, a);
  const bool has_bias = config.flag("use_bias", true);
  set_biases(attention, has_bias, has_bias);
  const Mlp mlp{.intermediate = config.size("intermediate_size", kMaxIntermediate),
                .has_bias = has_bias,
                .activation = read_activation(config, "hidden_act", Activation::kGeluTanh)};
  read_layers(config, a, {.attention = attention, .mlp = mlp});
}

void list_starcoder2(Architecture& a) {
  list_decoder(a, [](TensorList& list, const Architecture& a, const Layer& layer) {
    const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
    list_attention(list, a, layer.attention);
    list.linear("mlp.c_fc", ffn, hidden_of(a), layer.mlp->has_bias);
    list.linear("mlp.c_proj", hidden_of(a), ffn, layer.mlp->has_bias);
    list_two_norms(list, a);
  });
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

}  // namespace

std::vector<Family> starcoder2_families() {
  return {{.name = "starcoder2",
           .class_name = "Starcoder2ForCausalLM",
           .read = read_starcoder2,
           .list_tensors = list_starcoder2,
           .harmless_keys = {"mlp_type", "norm_type"}}};
}

}  // namespace plimsoll
