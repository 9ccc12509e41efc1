// Tensors of the parts that most decoders are made of, named as Transformers' Llama code names them. A family
// composes them in the order in which its own code registers them.
//
//   list_decoder(a, [](TensorList& list, const Architecture& a, const Layer& layer) {
//     list_attention(list, a, layer.attention);
//     list_feed_forward(list, a, layer);
//     list_two_norms(list, a);
//   });
#pragma once

#include <string_view>

#include "model/architecture.h"
#include "model/tensor_list.h"

namespace plimsoll {

Extent hidden_of(const Architecture& a);
Extent vocab_of(const Architecture& a);
Extent query_width(const Attention& attention);  // heads x head_dim
Extent key_width(const Attention& attention);    // kv_heads x head_dim
Extent value_width(const Attention& attention);  // kv_heads x value_head_dim

using LayerLister = void (*)(TensorList&, const Architecture&, const Layer&);

// model.embed_tokens, model.layers.N (by `layer`), model.norm, lm_head (or tied). No buffers.
void list_decoder(Architecture& a, LayerLister layer, std::string_view final_norm = "model.norm");
// inv_freq and original_inv_freq [rotary_dim / 2] below `module`, with `kind` ("full_attention_") before
// each.
void list_rotary_buffers(TensorList& list, std::string_view module, int64_t rotary_dim,
                         std::string_view kind = "");
// One pair for full and one for sliding layers, each only where there are such layers.
void list_rotary_by_layer_type(TensorList& list, const Architecture& a);

// q_proj [heads x head_dim, hidden], k_proj, v_proj, and the output [hidden, heads x value_head_dim];
// q_norm and k_norm after them as attention.head_norm says.
void list_attention(TensorList& list, const Architecture& a, const Attention& attention,
                    std::string_view output = "o_proj");
// gate_proj, up_proj [intermediate, hidden], down_proj [hidden, intermediate] below `module`.
void list_gated_mlp(TensorList& list, const Architecture& a, std::string_view module, int64_t intermediate,
                    bool has_bias);
// gate_up_proj [experts, 2 x width, hidden] and down_proj [experts, hidden, width] below `module`.
void list_experts(TensorList& list, const Architecture& a, std::string_view module, const Moe& moe);
// input_layernorm, post_attention_layernorm.
void list_two_norms(TensorList& list, const Architecture& a);

}  // namespace plimsoll
