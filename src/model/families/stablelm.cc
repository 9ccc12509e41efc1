#include "model/families/stablelm.h"

#include <fmt/format.h>

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxNormedHeads = 1024;  // each has a tensor of its own in every layer

void read_stablelm(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 4096);
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = true};
  a.is_parallel_residual = config.flag("use_parallel_residual", false);
  a.residual_dropout = config.probability("hidden_dropout", 0);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kNone);
  read_rotary(config, a, attention, {.part = 0.25});
  set_biases(attention, config.flag("use_qkv_bias", false), false);
  if (config.flag("qk_layernorm", false)) attention.head_norm = HeadNorm::kPerHead;
  if (attention.head_norm == HeadNorm::kPerHead && attention.heads > kMaxNormedHeads) {
    config.wrong("num_attention_heads", fmt::format("is {} with qk_layernorm", attention.heads),
                 fmt::format("at most {}", kMaxNormedHeads));
  }
  read_layers(config, a, {.attention = attention, .mlp = read_gated_mlp(config)});
}

void list_head_norms(TensorList& list, std::string_view module, int64_t heads, int64_t head_dim) {
  const Norm norm{.kind = NormKind::kLayerNorm, .has_bias = false};
  for (int64_t i = 0; i < heads; ++i) {
    list.norm(fmt::format("{}.norms.{}", module, i), {head_dim, Dim::kHeadDim}, norm);
  }
}

void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  Attention projections = layer.attention;
  projections.head_norm = HeadNorm::kNone;
  list_attention(list, a, projections);
  if (layer.attention.head_norm == HeadNorm::kPerHead) {
    list_head_norms(list, "self_attn.q_layernorm", layer.attention.heads, layer.attention.head_dim);
    list_head_norms(list, "self_attn.k_layernorm", layer.attention.kv_heads, layer.attention.head_dim);
  }
  list_gated_mlp(list, a, "mlp", layer.mlp->intermediate, false);
  list.norm("input_layernorm", hidden_of(a), a.norm);
  if (!a.is_parallel_residual) list.norm("post_attention_layernorm", hidden_of(a), a.norm);
}

void list_stablelm(Architecture& a) {
  list_decoder(a, list_layer);
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

}  // namespace

std::vector<Family> stablelm_families() {
  return {{.name = "stablelm",
           .class_name = "StableLmForCausalLM",
           .read = read_stablelm,
           .list_tensors = list_stablelm}};
}

}  // namespace plimsoll
