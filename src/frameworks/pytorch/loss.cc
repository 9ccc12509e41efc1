#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

Value cross_entropy(Eager& e, const Value& logits, const Value& target) {
  Value log_probabilities = e.log_softmax(logits, 1);
  return ops::nll_loss(e.full_precision(std::move(log_probabilities)), target);
}

}  // namespace

Value causal_lm_loss(Eager& e, const Value& given_logits, const Value& given_labels) {
  Value logits = ops::cast(given_logits, DType::kFloat32);
  Value labels = ops::pad(given_labels, 0, 1);
  Value shifted = ops::contiguous(ops::slice(labels, -1, 1, given_labels.size(-1)));
  logits = ops::view(logits, {-1, given_logits.size(-1)});
  shifted = ops::view(shifted, {-1});
  return cross_entropy(e, logits, shifted);
}

}  // namespace plimsoll::pytorch
