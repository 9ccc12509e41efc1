// Attention as Transformers' decoders compute it: projections, norms of the heads, rotary positions, cache,
// the attention interface, output projection.
#pragma once

#include <vector>

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

// What a decoder's layer is called with besides its hidden states. The caller holds the tensors.
struct LayerCall {
  const Family& family;
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
  const Rotary& rotary;
  const Value& positions;
  std::vector<Value>* cache = nullptr;  // keys and values are kept here; nullptr: no cache
};

// The attention interface's choices for a layer.
AttentionCall attention_call(const Eager& e, const LayerCall& call);
// DynamicLayer.update: joins with what was kept so far, which is nothing. A sliding layer keeps its window's
// length as a tensor. Without a cache nothing happens.
void update_cache(const LayerCall& call, Value& k, Value& v);

// <Family>Attention.forward as the module "self_attn" below the current path; output [b, s, hidden].
Attended decoder_attention(Eager& e, const LayerCall& call, const Value& hidden);

// mla.cc: DeepseekV3Attention.forward at the current path.
Attended latent_attention(Eager& e, const LayerCall& call, const Value& hidden);
// llama4.cc: Llama4TextDecoderLayer.forward
Value llama4_layer(Eager& e, const LayerCall& call, const Value& hidden);

}  // namespace plimsoll::pytorch
