#include "model/families/deepseek.h"

#include <fmt/format.h>

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"
#include "model/families/shared_mixture.h"

namespace plimsoll {
namespace {

// Queries and keys: nope_head_dim + rope_head_dim; values: v_head_dim. As many key and value heads as heads.
Attention read_latent_attention(ConfigReader& config, const Architecture& a) {
  Attention attention{.heads = config.size("num_attention_heads", kMaxHeads)};
  attention.kv_heads = attention.heads;
  const auto kv_heads = config.optional_size("num_key_value_heads", kMaxHeads);
  if (kv_heads && *kv_heads != attention.heads) {
    config.contradiction("num_key_value_heads",
                         fmt::format("is {}, but latent attention has {} heads", *kv_heads, attention.heads),
                         "num_attention_heads");
  }
  attention.latent = LatentAttention{.query_rank = config.nullable_size("q_lora_rank", kMaxHidden),
                                     .kv_rank = config.size("kv_lora_rank", kMaxHidden),
                                     .nope_head_dim = config.size("qk_nope_head_dim", kMaxHeadDim),
                                     .rope_head_dim = config.size("qk_rope_head_dim", kMaxHeadDim)};
  attention.head_dim = attention.latent->nope_head_dim + attention.latent->rope_head_dim;
  attention.value_head_dim = config.size("v_head_dim", kMaxHeadDim);
  if (a.hidden % attention.heads != 0) {
    config.contradiction("num_attention_heads", fmt::format("is {}, which doesn't divide hidden_size {}",
                                                            attention.heads, a.hidden));
  }
  config.ignore("head_dim");
  return attention;
}

// Rotary positions act on the rope part of the heads alone.
void read_latent_rotary(ConfigReader& config, Architecture& a, Attention& attention) {
  Attention rope_part{.head_dim = attention.latent->rope_head_dim};
  read_rotary(config, a, rope_part);
  attention.rotary_dim = rope_part.rotary_dim;
}

void read_deepseek(ConfigReader& config, Architecture& a, int64_t max_position,
                   bool has_score_correction_bias) {
  read_sizes(config, a, false);
  read_max_position(config, a, max_position);
  Attention attention = read_latent_attention(config, a);
  read_latent_rotary(config, a, attention);
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Moe moe = read_shared_moe(config);
  moe.has_score_correction_bias = has_score_correction_bias;
  if (has_score_correction_bias) {
    moe.is_group_limited = true;
    moe.has_normalised_weights = config.flag("norm_topk_prob", true);
    attention.latent->is_rope_interleaved = config.flag("rope_interleave", true);
  } else {
    moe.is_group_limited = config.text("topk_method").value_or("greedy") == "group_limited_greedy";
  }
  const bool has_mlp_bias = !has_score_correction_bias && config.flag("mlp_bias", false);
  moe.has_shared_bias = has_mlp_bias;
  read_mixed_layers(config, a, {.attention = attention, .moe = moe}, has_mlp_bias);
}

void read_deepseek_v2(ConfigReader& config, Architecture& a) { read_deepseek(config, a, 2048, false); }

void read_deepseek_v3(ConfigReader& config, Architecture& a) {
  read_deepseek(config, a, 4096, true);
  a.prediction_layers = config.count({"num_nextn_predict_layers", "num_mtp_layers"}, 0, 64);
}

// Biases follow attention_bias in the two down projections and the output, never in the up projections.
void list_latent_attention(TensorList& list, const Architecture& a, const Attention& attention) {
  const LatentAttention& latent = *attention.latent;
  const Extent kv_rank{latent.kv_rank, Dim::kLowRank};
  const int64_t key_value_dim = latent.nope_head_dim + attention.value_head_dim;
  if (latent.query_rank) {
    const Extent query_rank{*latent.query_rank, Dim::kLowRank};
    list.linear("self_attn.q_a_proj", query_rank, hidden_of(a), attention.query_bias);
    list.norm("self_attn.q_a_layernorm", query_rank, Norm{});
    list.linear("self_attn.q_b_proj", query_width(attention), query_rank, false);
  } else {
    list.linear("self_attn.q_proj", query_width(attention), hidden_of(a), false);
  }
  list.linear("self_attn.kv_a_proj_with_mqa", {latent.kv_rank + latent.rope_head_dim, Dim::kLowRank},
              hidden_of(a), attention.key_bias);
  list.norm("self_attn.kv_a_layernorm", kv_rank, Norm{});
  list.linear("self_attn.kv_b_proj", {attention.heads * key_value_dim, Dim::kHeads}, kv_rank, false);
  list.linear("self_attn.o_proj", hidden_of(a), value_width(attention), attention.output_bias);
}

void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  list_latent_attention(list, a, layer.attention);
  list_shared_mixture(list, a, layer);
  list_two_norms(list, a);
}

void list_deepseek(Architecture& a) {
  list_decoder(a, list_layer);
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.rotary_dim);
  a.prediction_parameters = prediction_layer_parameters(a);
}

}  // namespace

std::vector<Family> deepseek_families() {
  return {
      {.name = "deepseek_v2",
       .class_name = "DeepseekV2ForCausalLM",
       .read = read_deepseek_v2,
       .list_tensors = list_deepseek},
      {.name = "deepseek_v3",
       .class_name = "DeepseekV3ForCausalLM",
       .read = read_deepseek_v3,
       .list_tensors = list_deepseek},
  };
}

}  // namespace plimsoll
