#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
Attended eager_attention(Eager& e, EagerSoftmax softmax, double dropout, const Value& q, const Value& k,
                         const Value& v, const Value& mask) {
  Value weights = ops::mul(e.matmul(q, ops::transpose(k, -1, -2)), 1.0);
  if (mask) weights = ops::add(weights, mask);
  if (softmax == EagerSoftmax::kFloat32) {
    weights = ops::cast(ops::softmax(weights, -1, DType::kFloat32), q.dtype());
  } else {
    weights = e.softmax(weights, -1);
    if (softmax == EagerSoftmax::kThenValueDtype) weights = ops::cast(weights, v.dtype());
  }
  weights = ops::dropout(weights, dropout);
  Value output = e.matmul(weights, v);
  output = ops::transpose(output, 1, 2);
  return {.output = std::move(output), .weights = std::move(weights)};
}

Attended attend(Eager& e, const ResolvedJob& job, EagerSoftmax softmax, bool is_causal, const Value& q,
                const Value& k, const Value& v, const Value& mask) {
  const double dropout = e.dropout_probability(e.architecture().attention_dropout);
  if (job.attention == AttentionImplementation::kEager) {
    Attended attended = eager_attention(e, softmax, dropout, q, k, v, mask);
    attended.output = ops::contiguous(attended.output);
    return attended;
  }
  const AttentionCall call{.backend = job.sdpa_backend, .is_causal = is_causal, .dropout = dropout};
  return {.output = attention_core(e, call, q, k, v, mask), .weights = {}};
}

}  // namespace plimsoll::pytorch
