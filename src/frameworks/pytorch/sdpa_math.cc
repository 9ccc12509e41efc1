#include "frameworks/pytorch/sdpa.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

// pre_process_group_query_attention_input: repeat_interleave along the heads, which always copies.
Value repeated_heads(const Value& x, int64_t heads) {
  const int64_t b = x.size(0), kv_heads = x.size(1), s = x.size(2), d = x.size(3), times = heads / kv_heads;
  Value wide = ops::expand(ops::unsqueeze(x, 2), {b, kv_heads, times, s, d});
  return ops::view(ops::clone_contiguous(std::move(wide)), {b, heads, s, d});
}

Value causal_mask(const Value& q, const Value& k) {
  Value lower = ops::unary(OpKind::kTril, ops::ones(q.recorder(), {q.size(2), k.size(2)}, DType::kBool));
  return additive_mask(lower, q.dtype());
}

}  // namespace

Value attention_by_matrix_products(const SdpaCall& call, const Value& q, const Value& k, const Value& v,
                                   const Value& given_mask) {
  const DType dtype = q.dtype();
  // Half precision is computed in fp32 unless allow_fp16_bf16_reduction_math_sdp is set.
  const DType wide = is_half(dtype) ? DType::kFloat32 : dtype;
  Value mask;
  if (given_mask) mask = additive_mask(given_mask, dtype);
  const Value query_wide = ops::cast(q, wide), key_wide = ops::cast(k, wide), value_wide = ops::cast(v, wide);
  // Query and key are each multiplied by the root of the scale.
  const Value query = ops::with_scalar(OpKind::kScale, query_wide, 1);
  if (call.is_causal) mask = causal_mask(query, key_wide);
  Value key = key_wide, value = value_wide;
  if (call.enable_gqa && q.size(1) != k.size(1)) {
    key = repeated_heads(key_wide, q.size(1));
    value = repeated_heads(value_wide, q.size(1));
  }
  Value weights = ops::matmul(query, ops::with_scalar(OpKind::kScale, ops::transpose(key, 2, 3), 1));
  if (mask) weights = ops::add_(std::move(weights), mask);
  weights = ops::safe_softmax(std::move(weights), -1);
  weights = ops::dropout(std::move(weights), call.dropout);
  // The result is a pair: the weights come back in the input's dtype too, and are let go by the caller.
  const Value weights_result = ops::cast(weights, dtype);
  return ops::cast(ops::matmul(weights, value), dtype);
}

}  // namespace plimsoll::pytorch
