// Source: transformers/models/opt/modeling_opt.py.
#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

struct LayerCall {
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
  const Value& positions;
  std::vector<Value>* cache;  // nullptr: none
};

// OPTAttention.forward
Attended attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "self_attn");
  const Attention& spec = call.layer.attention;
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const auto heads = [&](Value x) {
    return ops::transpose(ops::view(std::move(x), {b, -1, spec.heads, spec.head_dim}), 1, 2);
  };
  const Value q = heads(ops::mul(e.linear("q_proj", hidden), 1.0));  // scaled here, not in the scores
  Value k = e.linear("k_proj", hidden);
  Value v = e.linear("v_proj", hidden);
  k = heads(std::move(k));
  v = heads(std::move(v));
  update_cache(call.cache, k, v);
  Attended out = attend(e, call.job, EagerSoftmax::kFloat32, true, q, k, v, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {b, s, -1}));
  out.output = e.linear("out_proj", out.output);
  return out;
}

// OPTDecoderLayer.forward
Value layer_forward(Eager& e, const LayerCall& call, const Value& given) {
  const bool norms_before = !e.architecture().is_norm_after_add;
  const double dropout = e.dropout_probability(e.architecture().residual_dropout);
  Value residual = given;
  Value hidden = given;
  if (norms_before) hidden = e.layer_norm("self_attn_layer_norm", hidden);
  Attended attended = attention(e, call, hidden);
  hidden = std::move(attended.output);
  hidden = ops::dropout(hidden, dropout);
  hidden = ops::add(residual, hidden);
  if (!norms_before) hidden = e.layer_norm("self_attn_layer_norm", hidden);

  hidden = ops::reshape(hidden, {-1, hidden.size(-1)});
  residual = hidden;
  if (norms_before) hidden = e.layer_norm("final_layer_norm", hidden);
  hidden = e.linear("fc1", hidden);
  hidden = activation(e, "activation_fn", call.layer.mlp->activation, hidden);
  hidden = e.linear("fc2", hidden);
  hidden = ops::dropout(hidden, dropout);
  hidden = ops::view(ops::add(residual, hidden), given.layout().shape());
  if (!norms_before) hidden = e.layer_norm("final_layer_norm", hidden);
  return hidden;
}

Value layer(Eager& e, const LayerCall& call, const Value& given) {
  RegionScope region(e, RegionKind::kBlock, {&given}, {&call.mask, &call.positions});
  Value hidden = layer_forward(e, call, given);
  region.end({&hidden});
  return hidden;
}

// Positions are counted from a mask, which is made of ones in fp32 when none is given.
Value positions_of(const Value& mask) {
  Value positions = ops::cumsum(mask, 1, mask.dtype());
  positions = ops::cast(ops::add(ops::mul(positions, mask), -1.0), DType::kInt64);
  positions = ops::slice(positions, 1, 0, positions.size(1));
  return positions;
}

// OPTLearnedPositionalEmbedding.forward
Value position_embedding(Eager& e, const Value& positions) {
  return e.embedding("embed_positions", ops::add(positions, 2.0));
}

// OPTDecoder.forward
Value opt_decoder(Eager& e, const ResolvedJob& job, const ModelInputs& inputs, std::vector<Value>* cache) {
  const Eager::Module scope(e, "model.decoder");
  const Architecture& a = e.architecture();
  const int64_t b = inputs.ids.size(0), s = inputs.ids.size(1);
  const Value ids = ops::view(inputs.ids, {-1, s});
  RegionScope embedding_region(e, RegionKind::kEmbedding, {&ids});
  Value embeddings = e.embedding("embed_tokens", ids);
  embedding_region.end({&embeddings});
  const Value position_mask = inputs.mask ? inputs.mask : ops::ones(e.recorder(), {b, s}, DType::kFloat32);
  const Value positions = positions_of(position_mask);
  const Value mask = causal_mask(e, job, embeddings, inputs.mask, {}, std::nullopt);
  const Value position_embeddings = position_embedding(e, positions);
  const bool projects = a.embedding_dim != a.hidden;
  if (projects) embeddings = e.linear("project_in", embeddings);
  Value hidden = ops::add(embeddings, position_embeddings);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("layers.{}", i));
    hidden = layer(
        e, {.job = job, .layer = a.layers[i], .mask = mask, .positions = positions, .cache = cache}, hidden);
  }
  if (a.has_final_norm) hidden = e.layer_norm("final_layer_norm", hidden);
  if (projects) hidden = e.linear("project_out", hidden);
  return hidden;
}

}  // namespace

// OPTForCausalLM.forward
ModelOutput opt_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  std::vector<Value> cache;
  const Value last_hidden = opt_decoder(e, job, inputs, has_cache(e, job) ? &cache : nullptr);
  ModelOutput output = causal_lm_head(e, last_hidden, inputs);
  output.cache = std::move(cache);
  return output;
}

}  // namespace plimsoll::pytorch
