#include "frameworks/megatron/interleaved.h"

#include <algorithm>

namespace plimsoll::megatron {

std::vector<VirtualMicroBatch> schedule_table(int64_t micro_batches, int64_t chunks, int64_t group) {
  std::vector<VirtualMicroBatch> table;
  for (int64_t first = 0; first < micro_batches; first += group) {
    const int64_t last = std::min(first + group, micro_batches);
    for (int64_t c = 0; c < chunks; ++c)
      for (int64_t m = first; m < last; ++m) table.push_back({.micro_batch = m, .chunk = c});
  }
  return table;
}

Interleaved::Interleaved(ScheduleHost& host, MicroBatches& micro, const ResolvedJob& job, const Stage& stage)
    : host_(host),
      micro_(micro),
      stage_(stage),
      micro_batches_(job.batch.accumulation),
      chunk_count_(static_cast<int64_t>(stage.chunks.size())),
      total_(micro_batches_ * chunk_count_),
      receives_early_(job.megatron->receives_early),
      chunks_(stage.chunks.size()) {
  const int64_t group = job.megatron->microbatch_group.value_or(stage.ranks);
  table_ = schedule_table(micro_batches_, chunk_count_, group);
  warmups_ = std::min(total_, (stage.ranks - stage.rank - 1) * 2 + (chunk_count_ - 1) * group);
  const auto slots = static_cast<size_t>(std::max<int64_t>(1, group - stage.ranks + 1));
  forward_buffer_.resize(stage.is_first() ? slots : 1);
  backward_buffer_.resize(stage.is_last() ? slots : 1);
}

std::vector<ModelInput> Interleaved::take_model_inputs() {
  std::vector<ModelInput> inputs;
  for (ChunkLists& chunk : chunks_) inputs.push_back(std::move(chunk.model));
  return inputs;
}
void Interleaved::set_model_inputs(std::vector<ModelInput> inputs) {
  for (size_t c = 0; c < inputs.size(); ++c) chunks_[c].model = std::move(inputs[c]);
}

int64_t Interleaved::chunk_of(int64_t k, bool is_forward) const {
  const int64_t chunk = table_[static_cast<size_t>(k % total_)].chunk;
  return is_forward ? chunk : chunk_count_ - chunk - 1;
}

// recv_tensor_from_previous_stage
Interleaved::Expected Interleaved::expected(int64_t k, bool is_forward) const {
  const bool is_leading = is_forward ? stage_.is_first() : stage_.is_last();
  if (!is_leading) return {.receives = true, .chunk = chunk_of(k + 1, is_forward)};
  const int64_t behind = stage_.ranks - 1;
  const bool has_sender = k >= behind;
  const int64_t next = chunk_of(has_sender ? k - behind : k + 1, is_forward);
  const int64_t last = is_forward ? chunk_count_ - 1 : 0;
  return {.receives = has_sender && next != last, .chunk = is_forward ? next + 1 : next - 1};
}

Result<void> Interleaved::run() {
  chunks_[0].inputs.push_back(receive(!stage_.is_first()));
  for (int64_t k = 0; k < warmups_; ++k) warmup(k);
  if (warmups_ > 0 && warmups_ < total_) first_gradient();
  for (int64_t k = 0; k < total_ - warmups_; ++k) PLIMSOLL_CHECK(steady(k));
  deallocate_output();
  if (warmups_ == total_) chunks_.back().gradients.push_back(receive(!stage_.is_last()));
  for (int64_t k = total_ - warmups_; k < total_; ++k) PLIMSOLL_CHECK(cooldown(k));
  return {};
}

// A received tensor goes to its list; the buffer's next place is emptied.
void Interleaved::take_received(std::vector<Value>& buffer, int64_t k, std::deque<Value>& list) {
  list.push_back(slot(buffer, k));
  slot(buffer, k + 1).reset();
}

void Interleaved::warmup(int64_t k) {
  Expected next = expected(k, true);
  if (k == total_ - 1) next.receives = false;
  const bool is_early = receives_early_ && !stage_.is_first();
  if (is_early) slot(forward_buffer_, k) = receive(next.receives);
  kept_output_ = {};
  forward(k);
  if (receives_early_ && stage_.is_first()) slot(forward_buffer_, k) = receive(next.receives);
  if (!receives_early_) {
    last_received_ = {.tensor = receive(next.receives)};
    if (next.receives) chunks_[static_cast<size_t>(next.chunk)].inputs.push_back(last_received_.tensor);
    deallocate_output();
    return;
  }
  deallocate_output();
  if (next.receives) take_received(forward_buffer_, k, chunks_[static_cast<size_t>(next.chunk)].inputs);
}

void Interleaved::first_gradient() {
  backward_buffer_.back() = receive(!stage_.is_last());
  if (!stage_.is_last()) chunks_.back().gradients.push_back(backward_buffer_.back());
}

Result<void> Interleaved::steady(int64_t k) {
  const int64_t f = k + warmups_;
  deallocate_output();
  InFlight old_output = std::move(kept_output_);
  forward(f);
  Expected next = expected(f, true);
  if (k == total_ - warmups_ - 1) next.receives = false;
  slot(forward_buffer_, f) = receive(next.receives);
  if (next.receives) take_received(forward_buffer_, f, chunks_[static_cast<size_t>(next.chunk)].inputs);
  PLIMSOLL_TRY(gradient, backward(k));
  const Expected back = expected(k, false);
  slot(backward_buffer_, k) = receive(back.receives);
  if (back.receives) take_received(backward_buffer_, k, chunks_[static_cast<size_t>(back.chunk)].gradients);
  input_gradient_ = std::move(gradient);
  return {};
}

Result<void> Interleaved::cooldown(int64_t k) {
  Expected next = expected(k, false);
  if (k == total_ - 1) next.receives = false;
  if (receives_early_ && !stage_.is_last()) slot(backward_buffer_, k) = receive(next.receives);
  PLIMSOLL_TRY(gradient, backward(k));
  input_gradient_ = std::move(gradient);
  if (!receives_early_) {
    output_gradient_ = receive(next.receives);
    if (next.receives) chunks_[static_cast<size_t>(next.chunk)].gradients.push_back(output_gradient_);
    return {};
  }
  if (stage_.is_last()) slot(backward_buffer_, k) = receive(next.receives);
  if (next.receives) take_received(backward_buffer_, k, chunks_[static_cast<size_t>(next.chunk)].gradients);
  return {};
}

void Interleaved::forward(int64_t k) {
  const VirtualMicroBatch& at = table_[static_cast<size_t>(k)];
  ChunkLists& chunk = chunks_[static_cast<size_t>(at.chunk)];
  if (stage_.is_first() && at.chunk == 0 && chunk.inputs.size() == chunk.outputs.size())
    chunk.inputs.emplace_back();
  host_.begin("fwd", ++forwards_);
  const Value input = chunk.inputs[static_cast<size_t>(at.micro_batch - chunk.released)];
  chunk.model = {.tensor = input};
  InFlight batch = micro_.forward(static_cast<size_t>(at.chunk), input);
  batch.number = k;
  host_.returned(batch);
  host_.release_token_count();  // the helper that got it returns
  output_.reset();
  const bool is_loss = stage_.is_last() && is_last_chunk(at.chunk);
  if (!is_loss) output_ = k;
  chunk.outputs.push_back(std::move(batch));
}

Result<Value> Interleaved::backward(int64_t k) {
  ChunkLists& chunk = chunks_[static_cast<size_t>(chunk_of(k, false))];
  host_.begin("bwd", ++backwards_);
  Value input = std::move(chunk.inputs.front()), output_gradient;
  InFlight batch = std::move(chunk.outputs.front());
  chunk.inputs.pop_front();
  chunk.outputs.pop_front();
  ++chunk.released;
  if (!chunk.gradients.empty()) {
    output_gradient = std::move(chunk.gradients.front());
    chunk.gradients.pop_front();
  }
  PLIMSOLL_TRY(gradient, micro_.backward(batch, output_gradient));
  // The gradient hangs on the input: who holds that keeps it too.
  for (ModelInput* holder : {&chunk.model, &last_received_})
    if (input && holder->tensor && input.id() == holder->tensor.id()) holder->gradient = gradient;
  batch.scaled.reset();
  host_.begin("x", backwards_);
  input.reset();
  if (output_ && *output_ == batch.number) kept_output_ = std::move(batch);
  batch = {};
  output_gradient.reset();
  return gradient;
}

// Of what output_tensor names, wherever it is held.
void Interleaved::deallocate_output() {
  if (!output_) return;
  for (ChunkLists& chunk : chunks_)
    for (InFlight& batch : chunk.outputs)
      if (batch.number == *output_) return micro_.deallocate_output(batch);
  if (kept_output_.graph) micro_.deallocate_output(kept_output_);
}

}  // namespace plimsoll::megatron
