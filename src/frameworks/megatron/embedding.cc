#include "frameworks/megatron/writer.h"

namespace plimsoll::megatron {
namespace {

// reduce_scatter_embeddings: without positions to add, words are reduced and scattered at once.
bool scatters_words(const Writer& w) {
  return w.sequence_ranks() > 1 && w.architecture().position != PositionKind::kLearned;
}

// VocabParallelEmbedding: with a split vocabulary, ids that other ranks hold are masked before and after.
Value word_embedding(Writer& w, const Value& ids) {
  const Writer::Module module(w, "word_embeddings");
  const Value weight = w.parameter("weight");
  const bool is_split = w.tensor_ranks() > 1;
  Value mask, masked = ids;
  if (is_split) {
    const Value below = ops::compare(ids), above = ops::compare(ids);
    mask = ops::logical_and(below, above);
    masked = ops::add(ops::clone(ids), -1.0);
  }
  if (is_split) masked = ops::masked_fill_(std::move(masked), mask);
  Value rows = w.settings().is_deterministic ? ops::index(weight, {masked}) : ops::embedding(weight, masked);
  if (!is_split) return rows;
  rows = ops::masked_fill_(std::move(rows), mask);
  if (!scatters_words(w)) return reduce_from_tensor_parallel(std::move(rows));
  rows = ops::clone_contiguous(ops::transpose(std::move(rows), 0, 1));
  return reduce_scatter_to_sequence_parallel(std::move(rows), w.sequence_ranks());
}

}  // namespace

Value embedding(Writer& w, const Value& ids, const Value& positions) {
  const Writer::Module module(w, "embedding");
  Value words = word_embedding(w, ids), rows, sum = words;
  if (w.architecture().position == PositionKind::kLearned) {
    const Writer::Module position_module(w, "position_embeddings");
    rows = ops::embedding(w.parameter("weight"), positions);
    sum = ops::add(words, rows);
  }
  Value hidden =
      scatters_words(w) ? std::move(sum) : ops::clone_contiguous(ops::transpose(std::move(sum), 0, 1));
  if (scatters_words(w))  // clone_scatter_output_in_embedding; the other way it is part of the scattering
    hidden = ops::clone(std::move(hidden));
  else if (w.sequence_ranks() > 1)
    hidden = scatter_to_sequence_parallel(std::move(hidden), w.sequence_ranks());
  return ops::dropout(std::move(hidden), w.architecture().embedding_dropout);
}

}  // namespace plimsoll::megatron
