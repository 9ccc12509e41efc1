#include "model/families/gpt_oss.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_gpt_oss(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 131072);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kRequired);
  a.rope_type = "yarn";
  read_rotary(config, a, attention, {.theta = 150000});
  const bool has_bias = config.flag("attention_bias", true);
  set_biases(attention, has_bias, has_bias);
  attention.has_sinks = true;
  a.attention_dropout = config.probability("attention_dropout", 0);
  Moe moe = read_moe(config, "num_local_experts", "intermediate_size",
                     {"num_experts_per_tok", "experts_per_token"});
  moe.has_router_bias = moe.has_expert_bias = true;
  read_layers(config, a, {.attention = attention, .moe = moe});
  read_layer_types(config, a, read_window(config, a, 128), [](size_t layer) { return layer % 2 == 0; });
}

// Experts lie [experts, in, out], the other way round than elsewhere.
void list_mixture(TensorList& list, const Architecture& a, const Moe& moe) {
  const Extent experts{moe.experts, Dim::kExperts};
  const Extent gate_up{2 * moe.expert_intermediate, Dim::kFfn};
  list.linear("mlp.router", experts, hidden_of(a), true);
  list.expert("mlp.experts.gate_up_proj", {experts, hidden_of(a), gate_up});
  list.expert("mlp.experts.gate_up_proj_bias", {experts, gate_up});
  list.expert("mlp.experts.down_proj", {experts, {moe.expert_intermediate, Dim::kFfn}, hidden_of(a)});
  list.expert("mlp.experts.down_proj_bias", {experts, hidden_of(a)});
}

void list_gpt_oss(Architecture& a) {
  list_decoder(a, [](TensorList& list, const Architecture& a, const Layer& layer) {
    list.parameter("self_attn.sinks", {{layer.attention.heads, Dim::kHeads}});
    list_attention(list, a, layer.attention);
    list_mixture(list, a, *layer.moe);
    list_two_norms(list, a);
  });
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
}

}  // namespace

std::vector<Family> gpt_oss_families() {
  return {{.name = "gpt_oss",
           .class_name = "GptOssForCausalLM",
           .read = read_gpt_oss,
           .list_tensors = list_gpt_oss,
           .harmless_keys = {"initial_context_length", "swiglu_limit", "swiglu_alpha"}}};
}

}  // namespace plimsoll
