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
  const bool norms_whole = spec.head_norm == HeadNorm::kWholeProjection;
  const bool cuts_heads_last = norms_whole || family.cuts_heads_last;
  const auto project = [&](std::string_view name, std::string_view norm_name) {
    Value x = e.linear(name, hidden);
    if (norms_whole && !norm_name.empty()) x = norm(e, family, norm_name, x);
    if (cuts_heads_last) return x;
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
  for (Value* x : {&heads.q, &heads.k, &heads.v}) {
    if (cuts_heads_last) *x = ops::view(*x, {b, s, -1, spec.head_dim});
    *x = ops::transpose(*x, 1, 2);
  }
  if (is_normed(HeadNormOrder::kAfterTranspose)) norm_both();
  return heads;
}

Heads fused_projection(Eager& e, const Attention& spec, const Value& hidden) {
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const int64_t q_width = spec.heads * spec.head_dim, kv_width = spec.kv_heads * spec.head_dim;
  Heads heads;
  heads.fused = e.linear("qkv_proj", hidden);
  heads.q = ops::slice(heads.fused, -1, 0, q_width);
  heads.k = ops::slice(heads.fused, -1, q_width, kv_width);
  heads.v = ops::slice(heads.fused, -1, q_width + kv_width, kv_width);
  for (Value* x : {&heads.q, &heads.k, &heads.v})
    *x = ops::transpose(ops::view(*x, {b, s, -1, spec.head_dim}), 1, 2);
  return heads;
}

}  // namespace

void update_cache(const LayerCall& call, Value& k, Value& v) {
  if (call.cache && is_local(call.layer.attention))
    call.cache->push_back(ops::full(k.recorder(), {}, DType::kInt64));
  update_cache(call.cache, k, v);
}

AttentionCall attention_call(const Eager& e, const LayerCall& call) {
  return {.implementation = call.job.attention,
          .backend = call.job.sdpa_backend,
          .is_causal = call.layer.attention.is_causal,
          .dropout = e.dropout_probability(e.architecture().attention_dropout),
          .softcap = call.layer.attention.score_softcap,
          .positions = &call.positions};
}

Attended decoder_attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "self_attn");
  const Architecture& a = e.architecture();
  const Attention& spec = call.layer.attention;
  const AttentionCall core = attention_call(e, call);
  if (spec.latent) return latent_attention(e, call, hidden);
  Heads heads = spec.is_fused_qkv ? fused_projection(e, spec, hidden)
                                  : separate_projections(e, call.family, spec, hidden);
  std::vector<Value> held;
  if (spec.rotary_dim > 0) held = apply_rotary(e, call.family, heads.q, heads.k, call.rotary);
  update_cache(call, heads.k, heads.v);
  Attended out = spec.has_sinks ? attention_with_sinks(e, core, heads.q, heads.k, heads.v, call.mask)
                                : attention_interface(e, core, heads.q, heads.k, heads.v, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {hidden.size(0), hidden.size(1), -1}));
  out.output = e.linear(call.family.attention_output, out.output);
  if (call.family.dropouts.are_functions)
    out.output = ops::dropout(out.output, e.dropout_probability(a.residual_dropout));
  return out;
}

}  // namespace plimsoll::pytorch
