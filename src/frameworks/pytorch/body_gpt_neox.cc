// Source: transformers/models/gpt_neox/modeling_gpt_neox.py.
#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

struct LayerCall {
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
  const Value& positions;
  const Rotary& rotary;
  std::vector<Value>* cache;  // nullptr: none
};

// apply_rotary_pos_emb: the first rotary_dim of each head is rotated, the rest joined again (also when it is
// empty).
void apply_partial_rotary(Eager& e, Value& q, Value& k, const Rotary& rotary) {
  const Value cos = ops::unsqueeze(rotary.cos, 1);
  const Value sin = ops::unsqueeze(rotary.sin, 1);
  const int64_t turned = cos.size(-1), kept = q.size(-1) - turned;
  const Value q_turned = ops::slice(q, -1, 0, turned), q_kept = ops::slice(q, -1, turned, kept);
  const Value k_turned = ops::slice(k, -1, 0, turned), k_kept = ops::slice(k, -1, turned, kept);
  Value new_q = rotated(e, q_turned, cos, sin);
  Value new_k = rotated(e, k_turned, cos, sin);
  new_q = e.cat({new_q, q_kept}, -1);
  new_k = e.cat({new_k, k_kept}, -1);
  q = std::move(new_q);
  k = std::move(new_k);
}

// GPTNeoXAttention.forward
Attended attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "attention");
  const int64_t b = hidden.size(0), s = hidden.size(1), width = 3 * call.layer.attention.head_dim;
  const Value qkv = ops::transpose(ops::view(e.linear("query_key_value", hidden), {b, s, -1, width}), 1, 2);
  std::vector<Value> parts = ops::chunk(qkv, 3, -1);
  Value q = std::move(parts[0]), k = std::move(parts[1]);
  Value v = std::move(parts[2]);
  apply_partial_rotary(e, q, k, call.rotary);
  update_cache(call.cache, k, v);
  Attended out = attend(e, call.job, EagerSoftmax::kFloat32, true, q, k, v, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {b, s, -1}));
  out.output = e.linear("dense", out.output);
  return out;
}

// GPTNeoXMLP.forward
Value mlp(Eager& e, const Mlp& spec, const Value& given) {
  const Eager::Module scope(e, "mlp");
  Value hidden = e.linear("dense_h_to_4h", given);
  hidden = activation(e, "act", spec.activation, hidden);
  hidden = e.linear("dense_4h_to_h", hidden);
  return hidden;
}

// GPTNeoXLayer.forward
Value layer_forward(Eager& e, const LayerCall& call, const Value& given) {
  const double dropout = e.architecture().residual_dropout;
  Attended attended = attention(e, call, e.layer_norm("input_layernorm", given));
  attended.output = e.dropout("post_attention_dropout", attended.output, dropout);
  const bool is_parallel = e.architecture().is_parallel_residual;
  if (!is_parallel) attended.output = ops::add(attended.output, given);
  Value fed = mlp(e, *call.layer.mlp,
                  e.layer_norm("post_attention_layernorm", is_parallel ? given : attended.output));
  fed = e.dropout("post_mlp_dropout", fed, dropout);
  Value sum = ops::add(fed, attended.output);
  return is_parallel ? ops::add(std::move(sum), given) : sum;
}

Value layer(Eager& e, const LayerCall& call, const Value& given) {
  RegionScope region(e, RegionKind::kBlock, {&given},
                     {&call.mask, &call.positions, &call.rotary.cos, &call.rotary.sin});
  Value hidden = layer_forward(e, call, given);
  region.end({&hidden});
  return hidden;
}

// GPTNeoXModel.forward
Value gpt_neox_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs, std::vector<Value>* cache) {
  const Eager::Module scope(e, "gpt_neox");
  const Architecture& a = e.architecture();
  RegionScope embedding_region(e, RegionKind::kEmbedding, {&inputs.ids});
  const Value embeddings = e.embedding("embed_in", inputs.ids);
  embedding_region.end({&embeddings});
  Value positions = ops::add(ops::arange(e.recorder(), inputs.ids.size(1)), 0.0);
  positions = ops::unsqueeze(positions, 0);
  const Value mask = causal_mask(e, job, embeddings, inputs.mask, positions, std::nullopt);
  Value hidden = e.dropout("emb_dropout", embeddings, a.embedding_dropout);
  const Rotary rotary =
      rotary_embedding(e, {}, "rotary_emb", hidden, positions, a.layers[0].attention.rotary_dim);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("layers.{}", i));
    hidden = layer(e,
                   {.job = job,
                    .layer = a.layers[i],
                    .mask = mask,
                    .positions = positions,
                    .rotary = rotary,
                    .cache = cache},
                   hidden);
  }
  hidden = e.layer_norm("final_layer_norm", hidden);
  return hidden;
}

}  // namespace

// GPTNeoXForCausalLM.forward
ModelOutput gpt_neox_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  std::vector<Value> cache;
  const Value last_hidden = gpt_neox_model(e, job, inputs, has_cache(e, job) ? &cache : nullptr);
  ModelOutput output = causal_lm_head(e, last_hidden, inputs);
  output.cache = std::move(cache);
  return output;
}

}  // namespace plimsoll::pytorch
