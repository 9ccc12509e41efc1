#include "frameworks/pytorch/sdpa.h"

#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

SdpaBackend choose(const SdpaCall& call, const Value& q, const Value& k, const Value& v, bool has_mask) {
  const SdpaBackend preferred = call.backend;
  if (preferred == SdpaBackend::kMath) return SdpaBackend::kMath;
  const bool half = is_half(q.dtype());
  const int64_t dq = q.size(3), dk = k.size(3), dv = v.size(3);
  const bool heads_equal = q.size(1) == k.size(1) && q.size(1) == v.size(1);
  const bool heads_grouped = call.enable_gqa && k.size(1) == v.size(1) && q.size(1) % k.size(1) == 0;
  const bool rows = q.layout().stride(3) == 1 && k.layout().stride(3) == 1 && v.layout().stride(3) == 1;
  if (q.dtype() != k.dtype() || q.dtype() != v.dtype()) return SdpaBackend::kMath;
  const bool fits_flash = half && !has_mask && dq == dk && dq == dv && rows && (heads_equal || heads_grouped);
  const bool takes_cudnn = preferred == SdpaBackend::kCudnnFirst || preferred == SdpaBackend::kCudnn;
  if (takes_cudnn && fits_flash && dq <= 128 && dq % 8 == 0) return SdpaBackend::kCudnn;
  const bool takes_flash = preferred != SdpaBackend::kEfficient && preferred != SdpaBackend::kCudnn;
  if (takes_flash && fits_flash && dq <= 256 && (!call.is_causal || q.size(2) == k.size(2)))
    return SdpaBackend::kFlash;
  const int64_t alignment = half ? 8 : 4;
  const bool takes_efficient = preferred != SdpaBackend::kFlash && preferred != SdpaBackend::kCudnn;
  if (takes_efficient && (half || q.dtype() == DType::kFloat32) && !call.enable_gqa && heads_equal &&
      dq == dk && dq % alignment == 0 && dv % alignment == 0 && rows)
    return SdpaBackend::kEfficient;
  return SdpaBackend::kMath;
}

// pad_last_dim<8>: the kernel takes head sizes that are multiples of 8.
Value padded_to_8(const Value& x) {
  const int64_t missing = round_up(x.size(3), int64_t{8}) - x.size(3);
  return missing == 0 ? x : ops::pad(x, 0, missing);
}

Value flash(const SdpaCall& call, const Value& q, const Value& k, const Value& v) {
  const Value query = padded_to_8(q), key = padded_to_8(k), value = padded_to_8(v);
  Value out = ops::flash_attention(query, key, value, call.is_causal, call.dropout);
  return out.size(3) == q.size(3) ? out : ops::slice(std::move(out), -1, 0, q.size(3));
}

// preprocess_mask: the last dim of the mask is padded to a multiple of 8 elements.
Value aligned_mask(Value mask, const Value& q, const Value& k) {
  constexpr int64_t kAlignment = 8;
  const int64_t length = mask.size(-1);
  if (length % kAlignment != 0) {
    mask = ops::pad(std::move(mask), 0, kAlignment - length % kAlignment);
    mask = ops::slice(std::move(mask), -1, 0, length);
  }
  return ops::expand(std::move(mask), {q.size(0), q.size(1), q.size(2), k.size(2)});
}

Value efficient(const SdpaCall& call, const Value& q, const Value& k, const Value& v,
                const Value& given_mask) {
  Value mask;
  if (given_mask) mask = aligned_mask(additive_mask(given_mask, q.dtype()), q, k);
  return ops::efficient_attention(q, k, v, mask, call.is_causal, call.dropout);
}

}  // namespace

Value additive_mask(const Value& mask, DType dtype) {
  if (mask.dtype() != DType::kBool) return mask;
  Value minus_infinity = ops::scalar_tensor(mask.recorder(), dtype);
  Value zero = ops::scalar_tensor(mask.recorder(), dtype);
  return ops::where(mask, zero, minus_infinity);
}

Value scaled_dot_product_attention(Eager& e, const SdpaCall& call, Value q, Value k, Value v, Value mask) {
  const Arguments held{&q, &k, &v, &mask};
  if (mask) mask = e.low_precision(std::move(mask));
  v = e.low_precision(std::move(v));
  k = e.low_precision(std::move(k));
  q = e.low_precision(std::move(q));
  switch (choose(call, q, k, v, mask.is_defined())) {
    case SdpaBackend::kFlash:
      return flash(call, q, k, v);
    case SdpaBackend::kCudnn:
      return ops::cudnn_attention(q, k, v, call.is_causal, call.dropout);
    case SdpaBackend::kEfficient:
      return efficient(call, q, k, v, mask);
    default:
      return attention_by_matrix_products(call, q, k, v, mask);
  }
}

}  // namespace plimsoll::pytorch
