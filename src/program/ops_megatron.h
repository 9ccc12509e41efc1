// Ops of Megatron-Core, apex and Transformer Engine: fused kernels, and the results of their autograd
// functions. A function's forward is written under no_grad, as autograd runs it; its last op, here, is the
// node: the result again, with the tensors that the function keeps for its backward.
//
//   Value y = megatron::linear(x, weight, {});                 // [.., in] x [out, in] -> [.., out]
//   y = megatron::bias_gelu(std::move(y), fc1_bias);           // [.., f]
//
// Source: megatron/core/tensor_parallel/{layers,mappings,cross_entropy}.py, megatron/core/fusions/*.py
// (Megatron-LM); apex/normalization/fused_layer_norm.py;
// transformer_engine/pytorch/module/{linear,layernorm_linear}.py.
#pragma once

#include "program/ops.h"

namespace plimsoll::megatron {

// ---- in place and small ----
Value all_reduce_(Value x);    // over the tensor-parallel group
Value count_nonzero(Value x);  // an int64 scalar
Value exp_(Value x);
Value sub_(Value x, Value y);

// ---- Megatron-Core ----
struct LinearOptions {
  bool sums_input_gradient = false;  // over the tensor-parallel group, in place
  // Where the weight's gradient is added to the gradient buffer by the product's kernel: what stands for it
  // in the graph, one tensor for all weights of a shape (get_dummy_wgrad).
  Value dummy_gradient = {};
  // Sequence parallelism: of so many ranks each holds a part of x, which is gathered for the product (local
  // layers: into `buffer`) and again for the weight's gradient; or of so many the result is scattered to.
  int64_t input_ranks = 1, result_ranks = 1;
  Value buffer = {};
};
// LinearWithGradAccumulationAndAsyncCommunication: matmul, then the bias added in a new tensor.
Value linear(Value x, Value weight, Value bias, LinearOptions options = {});
// _ReduceFromModelParallelRegion: summed over the tensor-parallel group in place; its gradient is passed on.
Value reduce_from_tensor_parallel(Value x);
// Sequence parallelism, over the tensor-parallel group: [s / t, ..] -> [s, ..] and back, summed.
Value gather_sequence(Value x, int64_t ranks);
Value gather_sequence_into(const Value& x, const Value& buffer, int64_t ranks);  // a part of a flat buffer
Value reduce_scatter_sequence(Value x, int64_t ranks);
// The same as autograd functions: each one's gradient is the other of its own.
Value reduce_scatter_to_sequence_parallel(Value x, int64_t ranks);
Value gather_from_sequence_parallel(Value x, int64_t ranks);
// _ScatterToSequenceParallelRegion: this rank's part, copied; its gradient is gathered.
Value scatter_to_sequence_parallel(Value x, int64_t ranks);
// Scores in half precision, scaled and masked in one kernel; the gradient overwrites that of the result.
Value fused_softmax(Value x);
// residual + dropout(x + bias) in one kernel, which makes the dropped elements' mask; bias may be undefined.
Value bias_dropout_add(Value x, Value bias, Value residual, double probability);
Value bias_gelu(Value x, Value bias);
// silu of the first half times the second; bias may be undefined.
Value bias_swiglu(Value x, Value bias);
// The loss of each token in fp32. logits [s, b, vocab / t], labels [s, b] int64; `is_split`: t > 1.
Value vocab_parallel_cross_entropy(Value logits, Value labels, bool is_split);

// The same from kernels that the compiler fuses (fused_cross_entropy.py): its small tensors are fewer.
Value fused_vocab_parallel_cross_entropy(Value logits, Value labels);

// ---- apex ----
Value fused_layer_norm(Value x, Value weight, Value bias);

// ---- Transformer Engine ----
// LayerNorm; without a bias RMSNorm, which has no mean.
Value te_norm(Value x, Value weight, Value bias, int64_t multiprocessors);
Value te_linear(Value x, Value weight, Value bias, LinearOptions options = {});
Value te_norm_linear(Value x, Value norm_weight, Value norm_bias, Value weight, Value bias,
                     int64_t multiprocessors, LinearOptions options = {});
Value te_gemm(Value x, Value weight, Value bias);  // the bias is added in its epilogue
Value te_softmax(Value x);
// x [s, b, heads, d] turned by the positions' angles, fp32 [s, 1, 1, d].
Value te_rotary(Value x, Value angles);
// flash_attn as Transformer Engine calls it: q [b, s, heads, d], k and v [b, s, kv heads, d] contiguous.
// `multiprocessors`: of the GPU in deterministic mode, otherwise 0.
Value te_flash_attention(Value q, Value k, Value v, int64_t multiprocessors);

}  // namespace plimsoll::megatron
