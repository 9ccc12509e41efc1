// Attention with sinks: every head has a learned score that takes part in the softmax and is then dropped.
// Source: transformers 5.24, models/gpt_oss/modeling_gpt_oss.py, eager_attention_forward.
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

Attended attention_with_sinks(Eager& e, const AttentionCall& call, const Value& q, const Value& k,
                              const Value& v, const Value& mask) {
  const int64_t groups = q.size(1) / k.size(1);
  const Value key = repeat_kv(k, groups);
  const Value value = repeat_kv(v, groups);
  Value weights = ops::mul(e.matmul(q, ops::transpose(key, 2, 3)), 1.0);
  if (mask) weights = ops::add(weights, mask);
  Value sinks = ops::reshape(e.parameter("sinks"), {1, -1, 1, 1});
  sinks = ops::expand(std::move(sinks), {q.size(0), -1, q.size(2), -1});
  Value combined = e.cat({weights, sinks}, -1);
  {
    const Value highest = std::move(ops::max(combined, -1, true)[0]);
    combined = ops::sub(combined, highest);
  }
  const Value probabilities = e.softmax(combined, -1, combined.dtype());
  weights = ops::slice(probabilities, -1, 0, k.size(2));
  weights = ops::cast(ops::dropout(weights, call.dropout), v.dtype());
  Value output = e.matmul(weights, value);
  output = ops::contiguous(ops::transpose(output, 1, 2));
  return {.output = std::move(output), .weights = std::move(weights)};
}

}  // namespace plimsoll::pytorch
