// The loss of TRL's SFTTrainer (loss_type "chunked_nll"): the head's product and the cross-entropy in chunks
// of tokens, each a checkpoint of its own; the logits become fp32. No label is ignored. Source:
// _patch_chunked_ce_lm_head, _chunked_cross_entropy_loss and _chunk in trl/trainer/sft_trainer.py of 1.14;
// from 1.16 on TRL computes log-probabilities in tiles of the vocabulary.
#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

struct Sums {
  Value loss, correct, entropy;
};

struct Head {
  Value weight, bias;  // bias may be undefined
};

Value logits_of(Eager& e, Family family, const Head& head, const Value& hidden) {
  Value logits;
  {
    const Value right = ops::transpose(ops::cast(head.weight, hidden.dtype()), 0, 1);
    logits = e.matmul(hidden, right);
  }
  mark_as_logits(logits);
  const With<Category> category(e.recorder().category, Category::kLogits);
  logits = ops::cast(std::move(logits), DType::kFloat32);
  if (head.bias) logits = ops::add(logits, ops::cast(head.bias, DType::kFloat32));
  // It asks the configuration for logit_scale and a soft cap, not for a divisor.
  if (family.logits_scaling == LogitsScaling::kDivided) family.logits_scaling = LogitsScaling::kNone;
  return finished_logits(e.architecture(), family, std::move(logits));
}

// _chunk
Sums chunk(Eager& e, const Family& family, const Head& head, const Value& hidden, const Value& labels) {
  const Value logits = logits_of(e, family, head, hidden);
  const With<Category> category(e.recorder().category, Category::kLogits);
  const Value log_probabilities = e.log_softmax(logits, -1);
  Sums sums;
  sums.loss = ops::nll_loss(log_probabilities, labels);
  const Value valid = ops::compare(labels);
  Value correct = ops::logical_and(ops::compare(ops::argmax(logits, -1), labels), valid);
  sums.correct = ops::cast(ops::sum(std::move(correct), {0}, false), DType::kFloat32);
  Value products = ops::mul(ops::unary(OpKind::kExp, log_probabilities), log_probabilities);
  Value entropies = ops::mul(ops::neg(ops::sum(std::move(products), {-1}, false)), valid);
  sums.entropy = ops::sum(std::move(entropies), {0}, false);
  return sums;
}

Sums checkpointed_chunk(Eager& e, const Family& family, const Head& head, const Value& hidden,
                        const Value& labels) {
  RegionScope region(e, RegionKind::kLoss, {&hidden, &head.weight, &head.bias, &labels});
  if (e.is_training()) region.checkpoint(Checkpoint::kNonReentrant);
  Sums sums = chunk(e, family, head, hidden, labels);
  region.end({&sums.loss, &sums.correct, &sums.entropy});
  return sums;
}

Value zero(Eager& e) { return ops::zeros(e.recorder(), {}, DType::kFloat32); }

// The number of rows that are worked on, as a tensor: whole chunks.
Value padded_count(const Value& count, int64_t size) {
  Value chunks = ops::clamp(ops::unary(OpKind::kCeil, ops::div(count, static_cast<double>(size))));
  return ops::mul(ops::cast(std::move(chunks), DType::kInt64), static_cast<double>(size));
}

}  // namespace

ModelOutput chunked_causal_lm_head(Eager& e, const Family& family, const Value& last_hidden,
                                   const ModelInputs& inputs) {
  Head head;
  {
    const Eager::Module scope(e, "lm_head");
    head = {.weight = e.parameter("weight"), .bias = e.parameter("bias")};
  }
  const int64_t predicted = last_hidden.size(1) - 1;
  Value hidden = ops::reshape(ops::slice(last_hidden, 1, 0, predicted), {-1, last_hidden.size(2)});
  Value labels = ops::reshape(ops::slice(inputs.labels, -1, 1, predicted), {-1});
  const Value valid = ops::compare(labels);
  const Value count = ops::sum(valid, {0}, false);
  Sums total{.loss = {}, .correct = zero(e), .entropy = zero(e)};
  // Rows that count come first: here all of them.
  const Value order = ops::sort(ops::cast(valid, DType::kInt8), 0)[1];
  hidden = ops::index(hidden, {order});
  labels = ops::index(labels, {order});
  const int64_t size = divide_up(inputs.labels.layout().elements(), inputs.loss.chunks);
  const int64_t rows = hidden.size(0);
  const Value padded = padded_count(count, size);
  total.loss = zero(e);
  Value hidden_chunk, label_chunk;
  Sums sums;
  for (int64_t start = 0; start < rows; start += size) {
    hidden_chunk = ops::slice(hidden, 0, start, std::min(size, rows - start));
    label_chunk = ops::slice(labels, 0, start, std::min(size, rows - start));
    sums = checkpointed_chunk(e, family, head, hidden_chunk, label_chunk);
    total.loss = ops::add(total.loss, sums.loss);
    total.correct = ops::add(total.correct, sums.correct);
    total.entropy = ops::add(total.entropy, sums.entropy);
  }
  total.loss = ops::div(total.loss, ops::clamp(count));
  return {.loss = total.loss, .logits = {}, .cache = {}, .counts = {total.correct, total.entropy, count}};
}

}  // namespace plimsoll::pytorch
