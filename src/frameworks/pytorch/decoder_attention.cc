#include "frameworks/pytorch/decoder_attention.h"

namespace plimsoll::pytorch {
namespace {

// Queries, keys and values, [b, heads, s, d] each.
struct Heads {
  Value q, k, v;
  Value fused;  // Phi3: their common projection stays in scope
};

Value norm_of_heads(Eager& e, const Family& family, std::string_view name, const Value& x) {
  return family.has_head_norm_list ? norm_of_each_head(e, name, x) : norm(e, family, name, x);
}

Heads separate_projections(Eager& e, const Family& family, const Attention& spec, const Value& hidden) {
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const bool has_head_norms = spec.head_norm == HeadNorm::kPerHead;
  const auto is_normed = [&](HeadNormOrder order) {
    return has_head_norms && family.head_norm_order == order;
  };
  const auto project = [&](std::string_view name, std::string_view norm_name) {
    Value x = e.linear(name, hidden);
    if (spec.head_norm == HeadNorm::kWholeProjection && !norm_name.empty()) x = norm(e, family, norm_name, x);
    x = ops::view(x, {b, s, -1, spec.head_dim});
    if (is_normed(HeadNormOrder::kWithProjection) && !norm_name.empty()) x = norm(e, family, norm_name, x);
    return x;
  };
  Heads heads;
  heads.q = project("q_proj", family.query_norm);
  heads.k = project("k_proj", family.key_norm);
  heads.v = project("v_proj", "");
  const auto norm_both = [&] {
    heads.q = norm_of_heads(e, family, family.query_norm, heads.q);
    heads.k = norm_of_heads(e, family, family.key_norm, heads.k);
  };
  if (is_normed(HeadNormOrder::kBeforeTranspose)) norm_both();
  for (Value* x : {&heads.q, &heads.k, &heads.v}) *x = ops::transpose(*x, 1, 2);
  if (is_normed(HeadNormOrder::kAfterTranspose)) norm_both();
  return heads;
}

Heads fused_projection(Eager& e, const Attention& spec, const Value& hidden) {
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const int64_t q_width = spec.heads * spec.head_dim, kv_width = spec.kv_heads * spec.head_dim;
  Heads heads;
  heads.fused = e.linear("qkv_proj", hidden);
  const auto part = [&](int64_t start, int64_t width) {
    Value x = ops::view(ops::slice(heads.fused, -1, start, width), {b, s, -1, spec.head_dim});
    return ops::transpose(std::move(x), 1, 2);
  };
  heads.q = part(0, q_width);
  heads.k = part(q_width, kv_width);
  heads.v = part(q_width + kv_width, kv_width);
  return heads;
}

// DynamicLayer.update: joins with what was kept so far, which is nothing. A sliding layer keeps its window's
// length as a tensor.
void update_cache(std::vector<Value>& cache, const Attention& spec, Heads& heads) {
  if (spec.window) cache.push_back(ops::full(heads.k.recorder(), {}, DType::kInt64));
  heads.k = ops::cat({heads.k}, -2);
  heads.v = ops::cat({heads.v}, -2);
  cache.push_back(heads.k);
  cache.push_back(heads.v);
}

}  // namespace

Attended decoder_attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "self_attn");
  const Architecture& a = e.architecture();
  const Attention& spec = call.layer.attention;
  const AttentionCall core{.implementation = call.job.attention,
                           .backend = call.job.sdpa_backend,
                           .is_causal = spec.is_causal,
                           .dropout = e.dropout_probability(a.attention_dropout),
                           .softcap = spec.score_softcap};
  if (spec.latent)
    return {.output = latent_attention(e, call.family, spec, core, hidden, call.rotary, call.mask),
            .weights = {}};
  Heads heads = spec.is_fused_qkv ? fused_projection(e, spec, hidden)
                                  : separate_projections(e, call.family, spec, hidden);
  std::vector<Value> held;
  if (spec.rotary_dim > 0) held = apply_rotary(e, call.family, heads.q, heads.k, call.rotary);
  if (call.cache) update_cache(*call.cache, spec, heads);
  Attended out = attention_interface(e, core, heads.q, heads.k, heads.v, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {hidden.size(0), hidden.size(1), -1}));
  out.output = e.linear(call.family.attention_output, out.output);
  if (call.family.dropouts.is_inside)
    out.output = ops::dropout(out.output, e.dropout_probability(a.residual_dropout));
  return out;
}

}  // namespace plimsoll::pytorch
