#include "frameworks/pytorch/modules.h"
#include "frameworks/pytorch/sdpa.h"

namespace plimsoll::pytorch {

Value repeat_kv(Value x, int64_t times) {
  if (times == 1) return x;
  const int64_t b = x.size(0), heads = x.size(1), s = x.size(2), d = x.size(3);
  Value wide = ops::expand(ops::unsqueeze(std::move(x), 2), {b, heads, times, s, d});
  return ops::reshape(std::move(wide), {b, heads * times, s, d});
}

namespace {

Value sdpa(Eager& e, const AttentionCall& call, const Value& q, const Value& k, const Value& v,
           const Value& mask) {
  const int64_t groups = q.size(1) / k.size(1);
  Value key = k, value = v;
  bool enable_gqa = false;
  if (groups > 1) {
    // use_gqa_in_sdpa: no mask, and head sizes that a fused kernel takes.
    enable_gqa = !mask && k.size(3) == v.size(3) && v.size(3) <= 256;
    if (!enable_gqa) {
      key = repeat_kv(std::move(key), groups);
      value = repeat_kv(std::move(value), groups);
    }
  }
  const SdpaCall sdpa_call{.backend = call.backend,
                           .is_causal = q.size(2) > 1 && !mask && call.is_causal,
                           .dropout = call.dropout,
                           .enable_gqa = enable_gqa};
  Value out = scaled_dot_product_attention(e, sdpa_call, q, key, value, mask);
  const int64_t b = out.size(0), s = q.size(2), d = v.size(3);
  out = ops::reshape(std::move(out), {b, -1, s, d});
  return ops::contiguous(ops::transpose(std::move(out), 1, 2));
}

// eager_attention_forward of Llama, with Gemma2's softcap
Attended eager(Eager& e, const AttentionCall& call, const Value& q, const Value& k, const Value& v,
               const Value& mask) {
  const int64_t groups = q.size(1) / k.size(1);
  const Value key = repeat_kv(k, groups);
  const Value value = repeat_kv(v, groups);
  Value weights = ops::mul(e.matmul(q, ops::transpose(key, 2, 3)), 1.0);
  if (call.softcap) {
    weights = ops::div(weights, *call.softcap);
    weights = ops::tanh(weights);
    weights = ops::mul(weights, *call.softcap);
  }
  if (mask) weights = ops::add(weights, mask);
  weights = call.widens_softmax ? ops::cast(ops::softmax(weights, -1, DType::kFloat32), q.dtype())
                                : e.softmax(weights, -1);
  weights = ops::dropout(weights, call.dropout);
  Value output = e.matmul(weights, value);
  output = ops::contiguous(ops::transpose(output, 1, 2));
  return {.output = std::move(output), .weights = std::move(weights)};
}

}  // namespace

void update_cache(std::vector<Value>* cache, Value& k, Value& v) {
  if (!cache) return;
  Value all_k = ops::cat({k}, -2);
  Value all_v = ops::cat({v}, -2);
  k = std::move(all_k);
  v = std::move(all_v);
  cache->push_back(k);
  cache->push_back(v);
}

Attended attention_interface(Eager& e, const AttentionCall& call, const Value& q, const Value& k,
                             const Value& v, const Value& mask) {
  if (call.implementation == AttentionImplementation::kEager) return eager(e, call, q, k, v, mask);
  if (call.implementation == AttentionImplementation::kFlashAttention2)
    return flash_attention_2(e, call, q, k, v);
  return {.output = sdpa(e, call, q, k, v, mask), .weights = {}};
}

}  // namespace plimsoll::pytorch
