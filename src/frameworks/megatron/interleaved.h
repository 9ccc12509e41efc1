// The interleaved 1F1B schedule: every rank holds several chunks of the model, and micro-batches pass through
// them in groups. Variables and lists are those of the Python function, since what they hold stays allocated.
//
// Source: megatron/core/pipeline_parallel/schedules.py (forward_backward_pipelining_with_interleaving).
#pragma once

#include <deque>
#include <vector>

#include "frameworks/megatron/schedule_host.h"

namespace plimsoll::megatron {

struct VirtualMicroBatch {
  int64_t micro_batch = 0, chunk = 0;
};
// get_schedule_table: the order in which a rank takes micro-batches and chunks forward.
std::vector<VirtualMicroBatch> schedule_table(int64_t micro_batches, int64_t chunks, int64_t group);

class Interleaved {
 public:
  Interleaved(ScheduleHost& host, MicroBatches& micro, const ResolvedJob& job, const Stage& stage);

  Result<void> run();
  // What the chunks hold on to between iterations.
  std::vector<ModelInput> take_model_inputs();
  void set_model_inputs(std::vector<ModelInput> inputs);

 private:
  struct ChunkLists {
    std::deque<Value> inputs, gradients;  // input_tensors, output_tensor_grads
    std::deque<InFlight> outputs;         // output_tensors
    int64_t released = 0;
    ModelInput model;
  };
  struct Expected {
    bool receives = false;
    int64_t chunk = 0;
  };

  int64_t chunk_of(int64_t k, bool is_forward) const;
  Expected expected(int64_t k, bool is_forward) const;
  bool is_last_chunk(int64_t chunk) const { return chunk == chunk_count_ - 1; }
  Value receive(bool does) { return does ? host_.receive() : Value(); }
  static Value& slot(std::vector<Value>& buffer, int64_t k) {
    return buffer[static_cast<size_t>(k) % buffer.size()];
  }

  void warmup(int64_t k);
  void first_gradient();
  Result<void> steady(int64_t k);
  Result<void> cooldown(int64_t k);
  void forward(int64_t k);
  Result<Value> backward(int64_t k);
  void take_received(std::vector<Value>& buffer, int64_t k, std::deque<Value>& list);
  void deallocate_output();

  ScheduleHost& host_;
  MicroBatches& micro_;
  const Stage& stage_;
  int64_t micro_batches_, chunk_count_, total_, warmups_;
  bool receives_early_;  // --overlap-p2p-communication-warmup-flush
  std::vector<VirtualMicroBatch> table_;
  std::vector<ChunkLists> chunks_;
  std::vector<Value> forward_buffer_, backward_buffer_;
  ModelInput last_received_;                // input_tensor
  Value input_gradient_, output_gradient_;  // input_tensor_grad, output_tensor_grad
  std::optional<int64_t> output_;           // output_tensor: the forward that made it
  InFlight kept_output_;                    // it, once the lists have let go
  int64_t forwards_ = 0, backwards_ = 0;
};

}  // namespace plimsoll::megatron
