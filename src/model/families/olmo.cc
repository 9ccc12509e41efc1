#include "model/families/olmo.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_olmo(ConfigReader& config, Architecture& a, const RotaryDefaults& rotary) {
  read_sizes(config, a, false);
  read_max_position(config, a, 2048);
  a.has_only_post_norms = true;
  Attention attention = read_heads(config, a, KvHeads::kAsHeads, HeadDimKey::kOptional);
  read_rotary(config, a, attention, rotary);
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  attention.head_norm = HeadNorm::kWholeProjection;
  a.attention_dropout = config.probability("attention_dropout", 0);
  read_layers(config, a, {.attention = attention, .mlp = read_gated_mlp(config)});
}

void read_olmo2(ConfigReader& config, Architecture& a) { read_olmo(config, a, {}); }

void read_olmo3(ConfigReader& config, Architecture& a) {
  read_olmo(config, a, {.theta = 500000});
  read_layer_types(config, a, read_window(config, a, 4096),
                   [](size_t layer) { return (layer + 1) % 4 != 0; });
}

void list_layers(Architecture& a) {
  list_decoder(a, [](TensorList& list, const Architecture& a, const Layer& layer) {
    list_attention(list, a, layer.attention);
    list_gated_mlp(list, a, "mlp", layer.mlp->intermediate, false);
    list.norm("post_attention_layernorm", hidden_of(a), a.norm);
    list.norm("post_feedforward_layernorm", hidden_of(a), a.norm);
  });
}

void list_olmo2(Architecture& a) {
  list_layers(a);
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

void list_olmo3(Architecture& a) {
  list_layers(a);
  TensorList list(a);
  list_rotary_by_layer_type(list, a);
}

}  // namespace

std::vector<Family> olmo_families() {
  return {
      {.name = "olmo2", .class_name = "Olmo2ForCausalLM", .read = read_olmo2, .list_tensors = list_olmo2},
      {.name = "olmo3", .class_name = "Olmo3ForCausalLM", .read = read_olmo3, .list_tensors = list_olmo3},
  };
}

}  // namespace plimsoll
