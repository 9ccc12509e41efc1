// Source: transformers/models/falcon/modeling_falcon.py.
#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"
#include "frameworks/pytorch/sdpa.h"

namespace plimsoll::pytorch {
namespace {

struct BlockCall {
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
  const Value& alibi;  // undefined: rotary positions
  const Value& positions;
  const Rotary& rotary;
  std::vector<Value>* cache;  // nullptr: none
};
struct BlockResult {
  Value hidden, weights;
};

// FalconLinear.forward: the bias is added apart.
Value falcon_linear(Eager& e, std::string_view name, const Value& x) {
  const Eager::Module scope(e, name);
  const Value hidden = e.matmul(x, ops::transpose(e.parameter("weight"), 0, 1));
  const Value bias = e.parameter("bias");
  return bias ? ops::add(hidden, bias) : hidden;
}

struct Heads {
  Value q, k, v;
};

// x[..., [i], :] on the second last dim: the list becomes a tensor on the device.
Value picked(const Value& x) {
  const Value index = ops::from_host(x.recorder(), {1}, DType::kInt64);
  return ops::index(x, {index}, x.rank() - 2);
}

// FalconAttention._split_heads: [b, s, heads, d] each.
Heads split_heads(const Attention& spec, const Value& given) {
  const int64_t b = given.size(0), s = given.size(1), d = spec.head_dim;
  if (spec.kv_heads == spec.heads) {
    const Value fused = ops::view(given, {b, s, spec.heads, 3, d});
    return {.q = ops::select(fused, -2, 0), .k = ops::select(fused, -2, 1), .v = ops::select(fused, -2, 2)};
  }
  const Value fused = ops::view(given, {b, s, spec.heads + 2, d});
  return {.q = ops::slice(fused, -2, 0, spec.heads), .k = picked(fused), .v = picked(fused)};
}

// The same with new_decoder_architecture: every group's key and value is repeated for its queries.
Heads split_groups(const Attention& spec, const Value& given) {
  const int64_t b = given.size(0), s = given.size(1), d = spec.head_dim, queries = spec.heads / spec.kv_heads;
  const Value fused = ops::view(given, {b, s, -1, queries + 2, d});
  const Value q = ops::slice(fused, -2, 0, queries);
  Value k = picked(fused);
  Value v = picked(fused);
  k = ops::expand(k, q.layout().shape());
  v = ops::expand(v, q.layout().shape());
  const auto flat = [&](const Value& x) { return ops::reshape(x, {b, s, spec.heads, d}); };
  Value flat_q = flat(q), flat_k = flat(k), flat_v = flat(v);
  return {.q = std::move(flat_q), .k = std::move(flat_k), .v = std::move(flat_v)};
}

// FalconAttention.forward without alibi, eager.
Attended eager_rotary(Eager& e, DType dtype, const Heads& h, const Value& mask) {
  Value scores = e.matmul(h.q, ops::transpose(h.k, -1, -2));
  scores = ops::div_(scores, 1.0);
  scores = ops::softmax(ops::add(scores, mask), -1, dtype);
  Value out = e.matmul(scores, h.v);
  return {.output = std::move(out), .weights = std::move(scores)};
}

// FalconAttention.forward with alibi, eager. `locals` are those of the caller's scope.
Attended eager_alibi(Eager& e, DType dtype, const Heads& h, const Value& alibi, const Value& mask,
                     std::vector<Value>& locals) {
  const int64_t b = h.q.size(0), heads = h.q.size(1), s = h.q.size(2);
  Value scores = ops::view(e.matmul(h.q, ops::transpose(h.k, -1, -2)), {b, heads, s, -1});
  locals.push_back(scores);
  if (is_half(scores.dtype())) scores = ops::cast(scores, DType::kFloat32);
  Value logits = ops::add(scores, ops::view(alibi, {b, heads, 1, -1}));
  logits = ops::mul_(logits, 1.0);
  Value probabilities = ops::softmax(ops::add(logits, mask), -1, dtype);
  probabilities = e.dropout("attention_dropout", probabilities, e.architecture().attention_dropout);
  locals.insert(locals.end(), {scores, logits});
  Value out = e.matmul(ops::view(probabilities, {b, heads, s, -1}), h.v);
  return {.output = std::move(out), .weights = std::move(probabilities)};
}

// FalconAttention.forward
Attended attention(Eager& e, const BlockCall& call, const Value& hidden) {
  const Eager::Module scope(e, "self_attention");
  const Attention& spec = call.layer.attention;
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const Value fused = falcon_linear(e, "query_key_value", hidden);
  Heads h = spec.is_fused_by_group ? split_groups(spec, fused) : split_heads(spec, fused);
  const auto in_front = [&](const Value& x) {
    return ops::reshape(ops::transpose(x, 1, 2), {b, x.size(2), s, spec.head_dim});
  };
  h.q = in_front(h.q);
  h.k = in_front(h.k);
  h.v = in_front(h.v);
  if (!call.alibi) apply_rotary(e, {}, h.q, h.k, call.rotary);
  update_cache(call.cache, h.k, h.v);
  Attended out;
  std::vector<Value> locals;
  if (call.job.attention == AttentionImplementation::kEager) {
    out = call.alibi ? eager_alibi(e, hidden.dtype(), h, call.alibi, call.mask, locals)
                     : eager_rotary(e, hidden.dtype(), h, call.mask);
  } else {
    const double dropout = call.alibi ? e.dropout_probability(e.architecture().attention_dropout) : 0;
    const SdpaCall sdpa{.backend = call.job.sdpa_backend, .is_causal = !call.mask, .dropout = dropout};
    out.output = scaled_dot_product_attention(e, sdpa, h.q, h.k, h.v, call.mask);
  }
  out.output = ops::permute(ops::view(out.output, {b, spec.heads, s, spec.head_dim}), {0, 2, 1, 3});
  out.output = ops::reshape(out.output, {b, s, spec.heads * spec.head_dim});
  out.output = falcon_linear(e, "dense", out.output);
  return out;
}

// FalconMLP.forward
Value mlp(Eager& e, const Mlp& spec, const Value& given) {
  const Eager::Module scope(e, "mlp");
  const Value x = activation(e, "act", spec.activation, falcon_linear(e, "dense_h_to_4h", given));
  return falcon_linear(e, "dense_4h_to_h", x);
}

// dropout_add
Value dropout_add(Eager& e, const Value& x, const Value& residual, double probability) {
  Value out = ops::dropout(x, e.dropout_probability(probability));
  out = ops::add(residual, out);
  return out;
}

// FalconDecoderLayer.forward
BlockResult block_forward(Eager& e, const BlockCall& call, const Value& given) {
  const Architecture& a = e.architecture();
  Value residual = given;
  Value attention_input, mlp_input;
  if (a.has_two_parallel_norms) {
    attention_input = e.layer_norm("ln_attn", given);
    mlp_input = e.layer_norm("ln_mlp", given);
  } else {
    attention_input = e.layer_norm("input_layernorm", given);
  }
  Attended attended = attention(e, call, attention_input);
  if (!a.is_parallel_residual) {
    residual = dropout_add(e, attended.output, residual, a.attention_dropout);
    mlp_input = e.layer_norm("post_attention_layernorm", residual);
  } else if (!mlp_input) {
    mlp_input = attention_input;
  }
  Value mlp_output = mlp(e, *call.layer.mlp, mlp_input);
  if (a.is_parallel_residual) mlp_output = ops::add_(mlp_output, attended.output);
  Value output = dropout_add(e, mlp_output, residual, a.residual_dropout);
  return {.hidden = std::move(output), .weights = std::move(attended.weights)};
}

BlockResult block(Eager& e, const BlockCall& call, const Value& given) {
  RegionScope region(e, RegionKind::kBlock, {&given},
                     {&call.mask, &call.alibi, &call.positions, &call.rotary.cos, &call.rotary.sin});
  BlockResult result = block_forward(e, call, given);
  region.end({&result.hidden, &result.weights});
  return result;
}

// build_alibi_tensor
Value build_alibi(const Value& mask, int64_t heads, DType dtype) {
  const AlibiSlopes made = alibi_slopes(mask.recorder(), heads);
  Value counted = ops::add(ops::cumsum(mask, -1, DType::kInt64), -1.0);
  const Value columns = ops::unsqueeze(ops::mul(std::move(counted), mask), 1);
  const Value alibi = ops::mul(ops::cast(ops::unsqueeze(made.slopes, -1), DType::kBFloat16), columns);
  return ops::cast(ops::reshape(alibi, {mask.size(0) * heads, 1, mask.size(1)}), dtype);
}

// FalconModel.forward: alibi joins the causal mask; both are replaced.
void add_alibi_to_mask(Value& alibi, Value& mask, int64_t batch, DType dtype) {
  Recorder& r = alibi.recorder();
  if (mask.dtype() == DType::kBool) {
    const Value lowest = ops::scalar_tensor(r, dtype);
    mask = ops::where(mask, ops::full(r, {}, dtype), lowest);
  }
  alibi = ops::reshape(alibi, {batch, -1, alibi.size(1), alibi.size(2)});
  const Value scaled = ops::div(alibi, 1.0);
  mask = ops::masked_fill(scaled, ops::compare(mask));
}

// FalconModel.forward
Value falcon_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs, std::vector<Value>* cache) {
  const Eager::Module scope(e, "transformer");
  const Architecture& a = e.architecture();
  const int64_t b = inputs.ids.size(0), s = inputs.ids.size(1);
  RegionScope embedding_region(e, RegionKind::kEmbedding, {&inputs.ids});
  const Value embeddings = e.embedding("word_embeddings", inputs.ids);
  embedding_region.end({&embeddings});
  Value token_mask, alibi;
  if (a.position == PositionKind::kAlibi) {
    token_mask = inputs.mask ? inputs.mask : ops::ones(e.recorder(), {b, s}, DType::kInt64);
    alibi = build_alibi(token_mask, a.layers[0].attention.heads, embeddings.dtype());
  }
  Value positions = ops::add(ops::arange(e.recorder(), s), 0.0);
  positions = ops::unsqueeze(positions, 0);
  Value mask = causal_mask(e, job, embeddings, inputs.mask, positions, std::nullopt, false);
  if (alibi && mask) add_alibi_to_mask(alibi, mask, b, embeddings.dtype());
  Value hidden = embeddings;
  const Rotary rotary =
      rotary_embedding(e, {}, "rotary_emb", hidden, positions, a.layers[0].attention.head_dim);
  BlockResult outputs;  // of the last block: its attention weights live on beside the next block
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("h.{}", i));
    outputs = block(e,
                    {.job = job,
                     .layer = a.layers[i],
                     .mask = mask,
                     .alibi = alibi,
                     .positions = positions,
                     .rotary = rotary,
                     .cache = cache},
                    hidden);
    hidden = outputs.hidden;
  }
  hidden = e.layer_norm("ln_f", hidden);
  return hidden;
}

}  // namespace

// FalconForCausalLM.forward
ModelOutput falcon_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  std::vector<Value> cache;
  const Value last_hidden = falcon_model(e, job, inputs, has_cache(e, job) ? &cache : nullptr);
  ModelOutput output = causal_lm_head(e, last_hidden, inputs);
  output.cache = std::move(cache);
  return output;
}

}  // namespace plimsoll::pytorch
