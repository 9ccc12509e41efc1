#include "model/families/phi.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_phi(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 2048);
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = true};
  a.is_parallel_residual = true;
  a.has_head_bias = true;
  a.embedding_dropout = config.probability("embd_pdrop", 0);
  a.residual_dropout = config.probability("resid_pdrop", 0);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Attention attention = read_heads(config, a, KvHeads::kAsHeads, HeadDimKey::kOptional);
  read_rotary(config, a, attention, {.part = 0.5});
  set_biases(attention, true, true);
  if (config.flag("qk_layernorm", false)) attention.head_norm = HeadNorm::kPerHead;
  const Mlp mlp{.intermediate = config.size("intermediate_size", kMaxIntermediate),
                .has_bias = true,
                .activation = read_activation(config, "hidden_act", Activation::kGeluNew)};
  read_layers(config, a, {.attention = attention, .mlp = mlp});
}

void list_phi_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  Attention projections = layer.attention;
  projections.head_norm = HeadNorm::kNone;
  list_attention(list, a, projections, "dense");
  if (layer.attention.head_norm == HeadNorm::kPerHead) {
    list.norm("self_attn.q_layernorm", {layer.attention.head_dim, Dim::kHeadDim}, a.norm);
    list.norm("self_attn.k_layernorm", {layer.attention.head_dim, Dim::kHeadDim}, a.norm);
  }
  const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
  list.linear("mlp.fc1", ffn, hidden_of(a), true);
  list.linear("mlp.fc2", hidden_of(a), ffn, true);
  list.norm("input_layernorm", hidden_of(a), a.norm);
}

void read_phi3(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 4096);
  a.residual_dropout = config.probability("resid_pdrop", 0);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Attention attention = read_heads(config, a, KvHeads::kAsHeads, HeadDimKey::kOptional);
  read_rotary(config, a, attention, {.part = 1});
  attention.is_fused_qkv = true;
  attention.window = read_window(config, a);
  Mlp mlp = read_gated_mlp(config);
  mlp.is_fused_gate_up = true;
  read_layers(config, a, {.attention = attention, .mlp = mlp});
}

void list_phi3_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  const Attention& attention = layer.attention;
  const int64_t qkv = query_width(attention).size + key_width(attention).size + value_width(attention).size;
  list.linear("self_attn.o_proj", hidden_of(a), query_width(attention), false);
  list.linear("self_attn.qkv_proj", {qkv, Dim::kHeads}, hidden_of(a), false);
  list.linear("mlp.gate_up_proj", {2 * layer.mlp->intermediate, Dim::kFfn}, hidden_of(a), false);
  list.linear("mlp.down_proj", hidden_of(a), {layer.mlp->intermediate, Dim::kFfn}, false);
  list_two_norms(list, a);
}

void list_phi(Architecture& a) {
  list_decoder(a, list_phi_layer, "model.final_layernorm");
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

void list_phi3(Architecture& a) {
  list_decoder(a, list_phi3_layer);
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

}  // namespace

std::vector<Family> phi_families() {
  return {
      {.name = "phi", .class_name = "PhiForCausalLM", .read = read_phi, .list_tensors = list_phi},
      {.name = "phi3",
       .class_name = "Phi3ForCausalLM",
       .read = read_phi3,
       .list_tensors = list_phi3,
       .harmless_keys = {"embd_pdrop"}},
  };
}

}  // namespace plimsoll
