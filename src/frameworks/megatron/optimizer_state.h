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

  void make_flags();
  // fp32 copies of the chunks' parameters, or of the parts that the last data-parallel rank owns.
  void make_masters(const std::vector<ChunkState>& chunks);
  // optimizer.step().
  void step();
  void zero_gradients();  // what the step made of fp16 gradients
  size_t masters() const { return masters_.size(); }
  void release_norms() { gradient_norm_.reset(); }  // after the step's results are logged

 private:
  bool is_fp16() const { return job_.megatron->precision == MegatronPrecision::kFloat16; }
  void copy_gradients();
  void clip();
  void count_zeros();

  Recorder& r_;
  const ResolvedJob& job_;
  std::vector<Value> flags_, masters_, moments_, gradients_;
  Value gradient_norm_;  // to the step's end
  Value kept_norm_;      // to the next step
  bool is_first_ = true;
};

}  // namespace plimsoll::megatron
