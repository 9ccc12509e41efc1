// Source: transformers/models/gptj/modeling_gptj.py.
#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

struct SinCos {
  Value sin, cos;  // [1, s, rotary_dim / 2]
};
struct BlockCall {
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
  const Value& positions;
  const SinCos& rotary;
  std::vector<Value>* cache;  // nullptr: none
};

// torch.repeat_interleave(x[:, :, None, :], 2, 3)
Value doubled(const Value& x) {
  const int64_t b = x.size(0), s = x.size(1), half = x.size(2);
  Value wide = ops::expand(ops::unsqueeze(ops::unsqueeze(x, 2), 4), {b, s, 1, half, 2});
  return ops::view(ops::clone_contiguous(std::move(wide)), {b, s, 1, 2 * half});
}

// rotate_every_two on [b, s, heads, d]
Value rotate_every_two(const Value& given) {
  const int64_t half = given.size(3) / 2;
  const Value even = ops::slice(given, 3, 0, half, 2);
  const Value odd = ops::slice(given, 3, 1, half, 2);
  const Value x = ops::stack({ops::neg(odd), even}, -1);
  return ops::view(x, given.layout().shape());
}

// apply_rotary_pos_emb
Value rotated_pairs(const Value& x, const SinCos& rotary) {
  const Value sin = doubled(rotary.sin);
  const Value cos = doubled(rotary.cos);
  Value straight = ops::mul(x, cos);
  Value turned = ops::mul(rotate_every_two(x), sin);
  return ops::add(std::move(straight), std::move(turned));
}

// The part of GPTJAttention.forward that turns key and query: their first rotary_dim, joined with the rest.
// Returns what stays in scope there.
std::vector<Value> apply_rotary(Eager& e, int64_t rotary_dim, Value& q, Value& k, const SinCos& rotary) {
  const int64_t kept = q.size(3) - rotary_dim;
  Value k_turned = ops::slice(k, 3, 0, rotary_dim);
  const Value k_kept = ops::slice(k, 3, rotary_dim, kept);
  Value q_turned = ops::slice(q, 3, 0, rotary_dim);
  const Value q_kept = ops::slice(q, 3, rotary_dim, kept);
  k_turned = rotated_pairs(k_turned, rotary);
  q_turned = rotated_pairs(q_turned, rotary);
  k = e.cat({k_turned, k_kept}, -1);
  q = e.cat({q_turned, q_kept}, -1);
  return {k_turned, k_kept, q_turned, q_kept};
}

// eager_attention_forward: scores in fp32
Attended eager(Eager& e, const Value& q, const Value& k, const Value& v, const Value& mask) {
  Value wide_q = ops::cast(q, DType::kFloat32);
  Value wide_k = ops::transpose(ops::cast(k, DType::kFloat32), 2, 3);
  Value weights = e.matmul(std::move(wide_q), std::move(wide_k));
  weights = ops::mul(std::move(weights), 1.0);
  if (mask) weights = ops::add(weights, mask);
  weights = ops::cast(e.softmax(weights, -1), v.dtype());
  weights = ops::dropout(weights, e.dropout_probability(e.architecture().attention_dropout));
  Value output = e.matmul(weights, v);
  output = ops::contiguous(ops::transpose(output, 1, 2));
  return {.output = std::move(output), .weights = std::move(weights)};
}

// GPTJAttention.forward
Attended attention(Eager& e, const BlockCall& call, const Value& hidden) {
  const Eager::Module scope(e, "attn");
  const Attention& spec = call.layer.attention;
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const auto heads = [&](std::string_view name) {
    return ops::view(e.linear(name, hidden), {b, s, -1, spec.head_dim});
  };
  Value q = heads("q_proj");
  Value k = heads("k_proj");
  Value v = ops::transpose(heads("v_proj"), 1, 2);
  const std::vector<Value> locals = apply_rotary(e, spec.rotary_dim, q, k, call.rotary);
  q = ops::transpose(q, 1, 2);
  k = ops::transpose(k, 1, 2);
  update_cache(call.cache, k, v);
  Attended out = call.job.attention == AttentionImplementation::kEager
                     ? eager(e, q, k, v, call.mask)
                     : attend(e, call.job, EagerSoftmax::kPlain, true, q, k, v, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {b, s, -1}));
  out.output = e.linear("out_proj", out.output);
  out.output = e.dropout("resid_dropout", out.output, e.architecture().residual_dropout);
  return out;
}

// GPTJMLP.forward
Value mlp(Eager& e, const Mlp& spec, const Value& given) {
  const Eager::Module scope(e, "mlp");
  Value hidden = e.linear("fc_in", given);
  hidden = activation(e, "act", spec.activation, hidden);
  hidden = e.linear("fc_out", hidden);
  hidden = e.dropout("dropout", hidden, e.architecture().residual_dropout);
  return hidden;
}

// GPTJBlock.forward
Value block_forward(Eager& e, const BlockCall& call, const Value& given) {
  const Value hidden = e.layer_norm("ln_1", given);
  const Attended attended = attention(e, call, hidden);
  const Value fed_forward = mlp(e, *call.layer.mlp, hidden);
  return ops::add(ops::add(attended.output, fed_forward), given);
}

Value block(Eager& e, const BlockCall& call, const Value& given) {
  RegionScope region(e, RegionKind::kBlock, {&given},
                     {&call.mask, &call.positions, &call.rotary.sin, &call.rotary.cos});
  Value hidden = block_forward(e, call, given);
  region.end({&hidden});
  return hidden;
}

// GPTJRotaryEmbedding.forward
SinCos rotary_embedding(Eager& e, const Value& x, const Value& positions) {
  const Eager::Module scope(e, "rotary_emb");
  const Value sincos = ops::cast(ops::index(e.buffer("embed_positions"), {positions}), x.dtype());
  std::vector<Value> parts = ops::chunk(sincos, 2, -1);
  return {.sin = std::move(parts[0]), .cos = std::move(parts[1])};
}

// GPTJModel.forward
Value gptj_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs, std::vector<Value>* cache) {
  const Eager::Module scope(e, "transformer");
  const Architecture& a = e.architecture();
  RegionScope embedding_region(e, RegionKind::kEmbedding, {&inputs.ids});
  const Value embeddings = e.embedding("wte", inputs.ids);
  embedding_region.end({&embeddings});
  Value positions = ops::add(ops::arange(e.recorder(), inputs.ids.size(1)), 0.0);
  positions = ops::unsqueeze(positions, 0);
  const Value mask = causal_mask(e, job, embeddings, inputs.mask, positions, std::nullopt);
  Value hidden = e.dropout("drop", embeddings, a.embedding_dropout);
  const SinCos rotary = rotary_embedding(e, hidden, positions);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("h.{}", i));
    hidden = block(e,
                   {.job = job,
                    .layer = a.layers[i],
                    .mask = mask,
                    .positions = positions,
                    .rotary = rotary,
                    .cache = cache},
                   hidden);
  }
  hidden = e.layer_norm("ln_f", hidden);
  return hidden;
}

}  // namespace

// GPTJForCausalLM.forward
ModelOutput gptj_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  std::vector<Value> cache;
  const Value last_hidden = gptj_model(e, job, inputs, has_cache(e, job) ? &cache : nullptr);
  ModelOutput output = causal_lm_head(e, last_hidden, inputs);
  output.cache = std::move(cache);
  return output;
}

}  // namespace plimsoll::pytorch
