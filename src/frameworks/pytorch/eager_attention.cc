#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

Value probabilities(Eager& e, Value scores, EagerSoftmax softmax, DType query, DType value) {
  switch (softmax) {
    case EagerSoftmax::kFloat32:
      return ops::cast(ops::softmax(std::move(scores), -1, DType::kFloat32), query);
    case EagerSoftmax::kThenValueDtype: {
      Value weights = e.softmax(std::move(scores), -1);
      return ops::cast(weights, value);
    }
    case EagerSoftmax::kPlain:
      break;
  }
  return e.softmax(std::move(scores), -1);
}

}  // namespace

Attended eager_attention(Eager& e, EagerSoftmax softmax, double dropout, const Value& q, const Value& k,
                         const Value& v, const Value& mask) {
  Value weights = ops::mul(e.matmul(q, ops::transpose(k, -1, -2)), 1.0);
  if (mask) weights = ops::add(weights, mask);
  weights = probabilities(e, weights, softmax, q.dtype(), v.dtype());
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
