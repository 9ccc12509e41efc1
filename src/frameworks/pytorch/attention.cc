#include <cassert>

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

Value repeat_kv(Value x, int64_t times) {
  if (times == 1) return x;
  const int64_t b = x.size(0), heads = x.size(1), s = x.size(2), d = x.size(3);
  Value wide = ops::expand(ops::unsqueeze(std::move(x), 2), {b, heads, times, s, d});
  return ops::reshape(std::move(wide), {b, heads * times, s, d});
}

namespace {

// Which fused kernel takes it. Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, compute
// capability 8.0 to 9.0.
SdpaBackend choose(SdpaBackend preferred, const Value& q, const Value& k, const Value& v, bool has_mask,
                   bool is_causal, bool enable_gqa) {
  if (preferred == SdpaBackend::kMath) return SdpaBackend::kMath;
  const bool half = is_half(q.dtype());
  const int64_t dq = q.size(3), dk = k.size(3), dv = v.size(3);
  const bool heads_equal = q.size(1) == k.size(1) && q.size(1) == v.size(1);
  const bool heads_grouped = enable_gqa && k.size(1) == v.size(1) && q.size(1) % k.size(1) == 0;
  const bool rows = q.layout().stride(3) == 1 && k.layout().stride(3) == 1 && v.layout().stride(3) == 1;
  const bool same_dtype = q.dtype() == k.dtype() && q.dtype() == v.dtype();
  if (!same_dtype) return SdpaBackend::kMath;
  const bool fits_flash = half && !has_mask && dq == dk && dq == dv && rows && (heads_equal || heads_grouped);
  const bool takes_cudnn = preferred == SdpaBackend::kCudnnFirst || preferred == SdpaBackend::kCudnn;
  if (takes_cudnn && fits_flash && dq <= 128 && dq % 8 == 0) return SdpaBackend::kCudnn;
  const bool takes_flash = preferred != SdpaBackend::kEfficient && preferred != SdpaBackend::kCudnn;
  if (takes_flash && fits_flash && dq <= 256 && (!is_causal || q.size(2) == k.size(2)))
    return SdpaBackend::kFlash;
  const int64_t alignment = half ? 8 : 4;
  const bool takes_efficient = preferred != SdpaBackend::kFlash && preferred != SdpaBackend::kCudnn;
  if (takes_efficient && (half || q.dtype() == DType::kFloat32) && !enable_gqa && heads_equal && dq == dk &&
      dq % alignment == 0 && dv % alignment == 0 && rows)
    return SdpaBackend::kEfficient;
  return SdpaBackend::kMath;
}

}  // namespace

Value scaled_dot_product_attention(Eager& e, SdpaBackend backend, Value q, Value k, Value v, Value mask,
                                   bool is_causal, double dropout, bool enable_gqa) {
  v = e.low_precision(std::move(v));
  k = e.low_precision(std::move(k));
  q = e.low_precision(std::move(q));
  switch (choose(backend, q, k, v, mask.is_defined(), is_causal, enable_gqa)) {
    case SdpaBackend::kFlash:
      return ops::flash_attention(std::move(q), std::move(k), std::move(v), is_causal, dropout);
    case SdpaBackend::kCudnn:
      return ops::cudnn_attention(std::move(q), std::move(k), std::move(v), is_causal, dropout);
    case SdpaBackend::kEfficient:
      return ops::efficient_attention(std::move(q), std::move(k), std::move(v), std::move(mask), is_causal,
                                      dropout);
    default:
      assert(false && "attention math has no recipe");
  }
  return q;
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
  const bool is_causal = q.size(2) > 1 && !mask && call.is_causal;
  Value out =
      scaled_dot_product_attention(e, call.backend, q, key, value, mask, is_causal, call.dropout, enable_gqa);
  const int64_t b = out.size(0), s = q.size(2), d = v.size(3);
  out = ops::reshape(std::move(out), {b, -1, s, d});
  return ops::contiguous(ops::transpose(std::move(out), 1, 2));
}

// eager_attention_forward
Value eager(Eager& e, const AttentionCall& call, const Value& q, const Value& k, const Value& v,
            const Value& mask) {
  const int64_t groups = q.size(1) / k.size(1);
  Value key = repeat_kv(k, groups);
  Value value = repeat_kv(v, groups);
  Value weights = ops::mul(e.matmul(q, ops::transpose(key, 2, 3)), 1.0);
  if (mask) weights = ops::add(weights, mask);
  weights = ops::cast(ops::softmax(weights, -1, DType::kFloat32), q.dtype());
  weights = ops::dropout(weights, call.dropout);
  Value out = e.matmul(weights, value);
  out = ops::contiguous(ops::transpose(std::move(out), 1, 2));
  return out;
}

}  // namespace

Value attention_core(Eager& e, const AttentionCall& call, const Value& q, const Value& k, const Value& v,
                     const Value& mask) {
  return call.implementation == AttentionImplementation::kEager ? eager(e, call, q, k, v, mask)
                                                                : sdpa(e, call, q, k, v, mask);
}

}  // namespace plimsoll::pytorch
