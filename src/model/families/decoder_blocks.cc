#include "model/families/decoder_blocks.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

Extent hidden_of(const Architecture& a) { return {a.hidden, Dim::kHidden}; }
Extent vocab_of(const Architecture& a) { return {a.vocab, Dim::kVocab}; }
Extent query_width(const Attention& attention) {
  return {saturating_multiply(attention.heads, attention.head_dim), Dim::kHeads};
}
Extent key_width(const Attention& attention) {
  return {saturating_multiply(attention.kv_heads, attention.head_dim), Dim::kKvHeads};
}
Extent value_width(const Attention& attention) {
  return {saturating_multiply(attention.kv_heads, attention.value_head_dim), Dim::kKvHeads};
}

void list_decoder(Architecture& a, LayerLister layer, std::string_view final_norm) {
  TensorList list(a);
  list.embedding("model.embed_tokens", vocab_of(a), hidden_of(a));
  for (size_t i = 0; i < a.layers.size(); ++i) {
    list.begin_layer("model.layers", i);
    layer(list, a, a.layers[i]);
  }
  list.end_layers();
  list.norm(final_norm, hidden_of(a), a.norm);
  if (a.is_tied) {
    list.tie("model.embed_tokens.weight", "lm_head.weight");
    if (a.has_head_bias) list.parameter("lm_head.bias", {vocab_of(a)});
  } else {
    list.linear("lm_head", vocab_of(a), hidden_of(a), a.has_head_bias);
  }
}

void list_rotary_buffers(TensorList& list, std::string_view module, int64_t rotary_dim,
                         std::string_view kind) {
  for (const char* name : {"inv_freq", "original_inv_freq"}) {
    list.buffer(fmt::format("{}.{}{}", module, kind, name), {divide_up(rotary_dim, 2)}, 4);
  }
}

void list_rotary_by_layer_type(TensorList& list, const Architecture& a) {
  const auto has = [&](bool is_sliding) {
    return std::any_of(a.layers.begin(), a.layers.end(),
                       [&](const Layer& layer) { return layer.attention.window.has_value() == is_sliding; });
  };
  const int64_t rotary_dim = a.layers.front().attention.rotary_dim;
  if (has(false)) list_rotary_buffers(list, "model.rotary_emb", rotary_dim, "full_attention_");
  if (has(true)) list_rotary_buffers(list, "model.rotary_emb", rotary_dim, "sliding_attention_");
}

void list_attention(TensorList& list, const Architecture& a, const Attention& attention,
                    std::string_view output) {
  const Extent hidden = hidden_of(a);
  list.linear("self_attn.q_proj", query_width(attention), hidden, attention.query_bias);
  list.linear("self_attn.k_proj", key_width(attention), hidden, attention.key_bias);
  list.linear("self_attn.v_proj", value_width(attention), hidden, attention.value_bias);
  list.linear(fmt::format("self_attn.{}", output), hidden, query_width(attention), attention.output_bias);
  if (attention.head_norm == HeadNorm::kPerHead) {
    list.norm("self_attn.q_norm", {attention.head_dim, Dim::kHeadDim}, Norm{});
    list.norm("self_attn.k_norm", {attention.head_dim, Dim::kHeadDim}, Norm{});
  } else if (attention.head_norm == HeadNorm::kWholeProjection) {
    list.norm("self_attn.q_norm", query_width(attention), Norm{});
    list.norm("self_attn.k_norm", key_width(attention), Norm{});
  }
}

void list_gated_mlp(TensorList& list, const Architecture& a, std::string_view module, int64_t intermediate,
                    bool has_bias) {
  const Extent ffn{intermediate, Dim::kFfn};
  list.linear(fmt::format("{}.gate_proj", module), ffn, hidden_of(a), has_bias);
  list.linear(fmt::format("{}.up_proj", module), ffn, hidden_of(a), has_bias);
  list.linear(fmt::format("{}.down_proj", module), hidden_of(a), ffn, has_bias);
}

void list_experts(TensorList& list, const Architecture& a, std::string_view module, const Moe& moe) {
  const Extent experts{moe.experts, Dim::kExperts};
  list.expert(fmt::format("{}.gate_up_proj", module),
              {experts, {2 * moe.expert_intermediate, Dim::kFfn}, hidden_of(a)});
  list.expert(fmt::format("{}.down_proj", module),
              {experts, hidden_of(a), {moe.expert_intermediate, Dim::kFfn}});
}

void list_two_norms(TensorList& list, const Architecture& a) {
  list.norm("input_layernorm", hidden_of(a), a.norm);
  list.norm("post_attention_layernorm", hidden_of(a), a.norm);
}

}  // namespace plimsoll
