// torch.nn.functional.scaled_dot_product_attention: which kernel takes a call, and what each allocates.
// Source: aten/src/ATen/native/transformers/attention.cpp, cuda/sdp_utils.cpp (compute capability 8.0
// to 9.0).
#pragma once

#include "frameworks/pytorch/eager.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

struct SdpaCall {
  SdpaBackend backend = SdpaBackend::kAutomatic;  // what the job prefers or allows
  bool is_causal = true;
  double dropout = 0;
  bool enable_gqa = false;
};

// q [b, heads, s, d], k and v [b, kv heads, s, d]; the mask is undefined, boolean (true: takes part) or
// added.
Value scaled_dot_product_attention(Eager& e, const SdpaCall& call, Value q, Value k, Value v, Value mask);

// sdpa_math.cc: _scaled_dot_product_attention_math, for what no fused kernel takes.
Value attention_by_matrix_products(const SdpaCall& call, const Value& q, const Value& k, const Value& v,
                                   const Value& mask);

// A boolean mask as one that is added, in `dtype`; others as they are.
Value additive_mask(const Value& mask, DType dtype);

}  // namespace plimsoll::pytorch
