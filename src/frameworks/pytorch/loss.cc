#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// at::cross_entropy_loss names log_softmax's dtype, the logits' own: autocast leaves it alone.
Value cross_entropy(Eager& e, const Value& logits, const Value& target) {
  const Value log_probabilities = ops::log_softmax(logits, 1);
  return ops::nll_loss(e.full_precision(log_probabilities), target);
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

Value masked_lm_loss(Eager& e, const Value& logits, const Value& labels) {
  const With<Category> category(e.recorder().category, Category::kLogits);
  const Value flat = ops::view(logits, {-1, logits.size(-1)});
  return cross_entropy(e, flat, ops::view(labels, {-1}));
}

}  // namespace plimsoll::pytorch
