// The forward and backward of micro-batches on one rank: what schedules.py calls forward_step, backward_step
// and deallocate_output_tensor, with the tensors that its variables hold.
#pragma once

#include <memory>

#include "frameworks/megatron/chunk_state.h"
#include "frameworks/megatron/forward.h"

namespace plimsoll::megatron {

// What the lists input_tensors and output_tensors hold of a micro-batch on its way: the graph by its output.
struct InFlight {
  size_t chunk = 0;
  int64_t number = 0;  // of the forward that made it, as its schedule counts
  Value input;         // received; undefined on the first stage
  std::unique_ptr<Autograd> graph;
  Autograd::Root root;
  Value output;  // or what stands for it once its data is freed
  bool is_deallocated = false;
  Value token_count, report;  // of the last stage
  Value scaled;               // the loss times the gradient scale, which the backward starts from
};

class MicroBatches {
 public:
  MicroBatches(Recorder& recorder, const ResolvedJob& job, std::vector<ChunkState>& chunks,
               const std::vector<Forward>& forwards);

  // The last stage's result is a loss.
  InFlight forward(size_t chunk, Value input);
  // The output's data goes, one element stays.
  void deallocate_output(InFlight& batch);
  // Returns the gradient of the input; `gradient`: received, undefined on the last stage.
  Result<Value> backward(InFlight& batch, Value gradient);

 private:
  void play_to_end(Autograd& autograd, size_t chunk);
  void bind_made_once(Autograd& autograd, const Program& forward, const MadeOnce& made);
  Value make(std::string_view name, Bytes bytes);
  Value make_once(const Program& forward, const MadeOnce& made, const std::string& name);
  void make_backward_workspace();
  Result<void> backward_of_loss(InFlight& batch);

  Recorder& r_;
  const ResolvedJob& job_;
  std::vector<ChunkState>& chunks_;
  const std::vector<Forward>& forwards_;
  std::vector<Value> made_once_;  // by place in the forward's list; of local layers all chunks share one
  std::unordered_map<std::string, Value> shared_;
  std::vector<std::vector<Value>> kept_;  // by chunk: what modules hold of their last call
  bool has_backward_workspace_ = false;
};

}  // namespace plimsoll::megatron
