// Adam of Megatron-Core: fp32 copies of what this rank's optimizer owns, moments that the first step makes,
// and the step's own small tensors.
//
// Source: megatron/core/optimizer/{optimizer,distrib_optimizer,clip_grads}.py, megatron/training/utils.py
// (calc_params_l2_norm).
#pragma once

#include <vector>

#include "frameworks/megatron/chunk_state.h"

namespace plimsoll::megatron {

class OptimizerState {
 public:
  OptimizerState(Recorder& recorder, const ResolvedJob& job) : r_(recorder), job_(job) {}

  // Flags, and fp32 copies of the chunks' parameters, or of the parts that the last data-parallel rank owns:
  // of an optimizer for the dense parameters and one for the experts' (ChainedOptimizer).
  void make(const std::vector<ChunkState>& chunks);
  // optimizer.step().
  void step();
  void zero_gradients();                            // what the step made of fp16 gradients
  void release_norms() { gradient_norm_.reset(); }  // after the step's results are logged

 private:
  bool is_fp16() const { return job_.megatron->precision == MegatronPrecision::kFloat16; }
  void make_flags();
  void make_masters(const ChunkState& chunk, const ParameterGroup& group, bool is_decayed);
  void copy_gradients();
  void clip();
  void clip_chained();
  Value norm_of_gradients();
  void count_zeros();
  void count_zeros(size_t first, size_t last);
  // The optimizers' norms are of the same ranks: then they are one.
  bool has_one_norm() const { return chained_ == 1 || job_.megatron->has_distributed_optimizer; }

  Recorder& r_;
  const ResolvedJob& job_;
  std::vector<Value> flags_, masters_, moments_, gradients_;
  Value gradient_norm_;  // to the step's end
  Value kept_norm_;      // to the next step
  bool is_first_ = true;
  int chained_ = 0;          // optimizers
  size_t first_expert_ = 0;  // of the masters
};

}  // namespace plimsoll::megatron
