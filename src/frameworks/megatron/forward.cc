#include "frameworks/megatron/forward.h"

#include <fmt/format.h>

#include <algorithm>

#include "frameworks/megatron/writer.h"

namespace plimsoll::megatron {
namespace {

struct MicroBatch {
  Value tokens, labels, loss_mask, positions, attention_mask;
};

// get_batch: the first tensor-parallel rank copies from the host, the others receive. Source:
// megatron/training/utils.py (get_batch_on_this_tp_rank), pretrain_gpt.py (get_batch).
MicroBatch get_batch(Writer& w) {
  Recorder& r = w.recorder();
  const Writer::Module module(w, "batch");
  const With<Category> category(r.category, Category::kInput);
  const int64_t b = w.job().batch.micro_batch, s = w.job().batch.sequence;
  const bool is_first_rank = w.tensor_ranks() == 1;
  const auto make = [&](ops::SizeList sizes, DType dtype) {
    return is_first_rank ? ops::from_host(r, sizes, dtype) : ops::empty(r, sizes, dtype);
  };
  MicroBatch batch;
  const auto mask = [&] {
    if (w.settings().has_mask_in_dataloader) batch.attention_mask = make({b, 1, s, s}, DType::kBool);
  };
  if (is_first_rank) {
    mask();
    batch.labels = make({b, s}, DType::kInt64);
    batch.loss_mask = make({b, s}, DType::kFloat32);
    batch.positions = make({b, s}, DType::kInt64);
    batch.tokens = make({b, s}, DType::kInt64);
    return batch;
  }
  const Chunk& chunk = w.chunk();
  // All are made; what the stage doesn't use is let go.
  batch.tokens = make({b, s}, DType::kInt64);
  batch.labels = make({b, s}, DType::kInt64);
  batch.loss_mask = make({b, s}, DType::kFloat32);
  batch.positions = make({b, s}, DType::kInt64);
  mask();
  if (!chunk.has_embedding) batch.tokens.reset();
  if (!chunk.has_embedding) batch.positions.reset();
  if (!chunk.has_head) batch.labels.reset();
  if (!chunk.has_head) batch.loss_mask.reset();
  return batch;
}

Value layers(Writer& w, int64_t first, int64_t last, Value hidden, const Value& mask) {
  for (int64_t i = first; i < last; ++i) {
    const Writer::Module module(w, fmt::format("decoder.layers.{}", i));
    const Layer& layer = w.architecture().layers[static_cast<size_t>(w.chunk().first_layer + i)];
    hidden = transformer_layer(w, layer, std::move(hidden), mask);
  }
  return hidden;
}

// TransformerBlock._checkpointed_forward: uniform takes all layers, so many a checkpoint; block the first so
// many layers, each for itself. tensor_parallel.checkpoint runs its function again as
// torch.utils.checkpoint's reentrant one.
Value decoder(Writer& w, Value hidden, const Value& mask) {
  const MegatronSettings& m = w.settings();
  const int64_t all = w.chunk().layers;
  const bool is_uniform = m.recompute == MegatronRecompute::kFullUniform;
  int64_t checkpointed = 0;
  if (m.recompute == MegatronRecompute::kFullBlock) checkpointed = std::min(m.recompute_layers, all);
  if (is_uniform) checkpointed = all;
  const int64_t step = is_uniform ? m.recompute_layers : 1;
  for (int64_t i = 0; i < checkpointed; i += step) {
    const Writer::Checkpoint checkpoint(w, fmt::format("decoder.layers.{}", i), hidden, mask);
    hidden = layers(w, i, std::min(i + step, all), std::move(hidden), mask);
    checkpoint.set_result(hidden);
  }
  return layers(w, checkpointed, all, std::move(hidden), mask);
}

void write_forward(Writer& w, Forward& forward) {
  const Chunk& chunk = w.chunk();
  MicroBatch batch;
  if (chunk.has_embedding || chunk.has_head) batch = get_batch(w);
  Value hidden;
  if (chunk.has_embedding) {
    hidden = embedding(w, batch.tokens, batch.positions);
  } else {
    const Layout layout = Layout::contiguous(
        {w.job().batch.sequence / w.sequence_ranks(), w.job().batch.micro_batch, w.architecture().hidden});
    hidden = w.recorder().persistent(layout, w.dtype(), Category::kActivation,
                                     forward.program.module("received"), true);
    forward.input = hidden.id();
  }
  hidden = decoder(w, std::move(hidden), batch.attention_mask);
  if (!chunk.has_head) {
    forward.output = hidden.id();
    w.hold(std::move(hidden));
    return;
  }
  {
    const Writer::Module module(w, "decoder");
    hidden = norm(w, "final_layernorm", hidden);
  }
  Value losses = head_loss(w, std::move(hidden), batch.labels);
  batch.attention_mask.reset();
  batch.labels.reset();
  batch.positions.reset();
  batch.tokens.reset();
  Value loss = micro_batch_loss(w, std::move(losses), std::move(batch.loss_mask));
  forward.output = loss.id();
  w.hold(std::move(loss));
}

}  // namespace

Result<Forward> record_forward(const Architecture& architecture, const ResolvedJob& job, const Stage& stage,
                               const Chunk& chunk) {
  Forward forward;
  {
    Writer writer(forward, architecture, job, stage, chunk);
    write_forward(writer, forward);
    writer.recorder().finish();
  }
  return forward;
}

}  // namespace plimsoll::megatron
