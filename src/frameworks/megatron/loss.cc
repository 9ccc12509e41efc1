#include "frameworks/megatron/writer.h"

namespace plimsoll::megatron {

Value head_loss(Writer& w, Value hidden, const Value& labels) {
  Value logits;
  {
    const bool is_own = w.architecture().is_tied && w.chunk().has_embedding;
    const Writer::Module module(w, is_own ? "embedding.word_embeddings" : "output_layer");
    const With<Category> category(w.recorder().category, Category::kLogits);
    LinearOptions options{.dummy_gradient = w.dummy_gradient(), .input_ranks = w.sequence_ranks()};
    options.sums_input_gradient = w.tensor_ranks() > 1 && options.input_ranks == 1;
    if (options.input_ranks > 1)
      options.buffer = w.global_buffer(
          Layout::contiguous({hidden.size(0) * options.input_ranks, hidden.size(1), hidden.size(2)}));
    logits = linear(std::move(hidden), w.parameter("weight"), {}, std::move(options));
    w.made_once(MadeOnce::Kind::kCublasWorkspace, OpKind::kMm);
  }
  // compute_language_model_loss
  const Writer::Module module(w, "loss");
  Value by_position = ops::clone_contiguous(ops::transpose(labels, 0, 1));
  Value losses = w.settings().fuses_cross_entropy
                     ? fused_vocab_parallel_cross_entropy(logits, by_position)
                     : vocab_parallel_cross_entropy(logits, by_position, w.tensor_ranks() > 1);
  Value by_sequence = ops::clone_contiguous(ops::transpose(losses, 0, 1));
  losses.reset();
  by_position.reset();
  logits.reset();
  return by_sequence;
}

Value micro_batch_loss(Writer& w, Value losses, Value loss_mask) {
  Recorder& r = w.recorder();
  const Writer::Module module(w, "loss");
  Value flat = ops::view(losses, {-1});
  const Value weights = ops::view(std::move(loss_mask), {-1});
  Value weighted = ops::mul(flat, weights);
  Value loss = ops::sum(std::move(weighted), {0}, false);
  Value count = ops::sum(weights, {0}, false);
  count = ops::clone(std::move(count));
  count = ops::cast(std::move(count), DType::kInt32);
  const auto as_one = [](Value x) { return ops::view(std::move(x), {1}); };
  Value report;
  {
    const With<bool> no_grad(r.is_grad_enabled, false);
    Value copy = as_one(ops::detach(ops::clone(loss)));
    report = ops::cat({copy, as_one(count)}, 0);
  }
  Value at_least_one = ops::clamp(count);
  loss = ops::div_(std::move(loss), at_least_one);
  loss = ops::div_(std::move(loss), static_cast<double>(w.job().batch.accumulation));
  w.forward().token_count = count.id();
  w.forward().report = report.id();
  w.hold(std::move(count));
  w.hold(std::move(report));
  return loss;
}

}  // namespace plimsoll::megatron
