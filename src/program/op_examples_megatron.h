// Examples of the ops of Megatron-Core, apex and Transformer Engine, for op_table_test.cc. What is kept
// restates the save_for_backward of each function.
#pragma once

#include "program/op_example.h"
#include "program/ops_megatron.h"

namespace plimsoll {

inline std::vector<Example> megatron_linear_examples() {
  return {
      {OpKind::kLinearFunction,  // inputs: result, x, weight, bias
       {wants({4, 2, 8}), wants({6, 8}), wants({6})},
       [](Inputs& in) { return megatron::linear(in[0], in[1], in[2], {.sums_input_gradient = true}); },
       {1, 2}},
      {OpKind::kTeLinear,
       {wants({4, 2, 8}), wants({6, 8}), wants({6})},
       [](Inputs& in) { return megatron::te_linear(in[0], in[1], in[2]); },
       {1, 2}},
      {OpKind::kTeNormLinear,  // result, x, norm weight, weight, normed, deviation, mean, norm bias, bias
       {wants({4, 2, 8}), wants({8}), wants({8}), wants({6, 8}), wants({6})},
       [](Inputs& in) { return megatron::te_norm_linear(in[0], in[1], in[2], in[3], in[4], 2); },
       {1, 2, 3, 4, 5, 6}},
      {OpKind::kReduceFunction,
       {wants({4, 8})},
       [](Inputs& in) { return megatron::reduce_from_tensor_parallel(ops::clone(std::move(in[0]))); }},
      {OpKind::kReduceScatterFunction,
       {wants({4, 8})},
       [](Inputs& in) { return megatron::reduce_scatter_to_sequence_parallel(in[0], 2); }},
      {OpKind::kGatherFunction,
       {wants({4, 8})},
       [](Inputs& in) { return megatron::gather_from_sequence_parallel(in[0], 2); }},
      {OpKind::kScatterFunction,
       {wants({4, 8})},
       [](Inputs& in) { return megatron::scatter_to_sequence_parallel(in[0], 2); }},
  };
}

inline std::vector<Example> megatron_kernel_examples() {
  const TensorInfo query = wants({2, 16, 4, 8}), key = wants({2, 16, 2, 8});
  return {
      {OpKind::kFusedLayerNorm,
       {wants({4, 8}), wants({8}), wants({8})},
       [](Inputs& in) { return megatron::fused_layer_norm(in[0], in[1], in[2]); },
       {0, 1, 2},
       {1, 2}},
      {OpKind::kTeNorm,  // results: mean, deviation, normed
       {wants({4, 8}), wants({8}), wants({8})},
       [](Inputs& in) { return megatron::te_norm(in[0], in[1], in[2], 2); },
       {0, 1},
       {0, 1}},
      {OpKind::kFusedSoftmax,
       {wants({2, 4, 4})},
       [](Inputs& in) { return megatron::fused_softmax(in[0]); },
       {},
       {0}},
      {OpKind::kTeSoftmax,
       {wants({2, 4, 4})},
       [](Inputs& in) { return megatron::te_softmax(in[0]); },
       {},
       {0}},
      {OpKind::kFusedBiasAdd,
       {wants({4, 2, 8}), wants({8}), wants({4, 2, 8})},
       [](Inputs& in) { return megatron::bias_dropout_add(ops::clone(in[0]), in[1], in[2], 0.1); }},
      {OpKind::kDropoutAdd,
       {wants({4, 2, 8}), wants({4, 2, 8})},
       [](Inputs& in) { return megatron::bias_dropout_add(in[0], {}, in[1], 0.1); },
       {},
       {0}},
      {OpKind::kBiasGelu,
       {wants({4, 2, 8}), wants({8})},
       [](Inputs& in) { return megatron::bias_gelu(in[0], in[1]); },
       {0, 1}},
      {OpKind::kBiasSwiglu,
       {wants({4, 2, 8}), wants({8})},
       [](Inputs& in) { return megatron::bias_swiglu(in[0], in[1]); },
       {0, 1}},
      {OpKind::kTeRotary,
       {wants({16, 2, 4, 8}), plain({16, 1, 1, 8})},
       [](Inputs& in) { return megatron::te_rotary(in[0], in[1]); },
       {1}},
      {OpKind::kTeFlashAttention,
       {query, key, key},
       [](Inputs& in) { return megatron::te_flash_attention(in[0], in[1], in[2], 2); },
       {0, 1, 2},
       {0, 1, 2}},
      {OpKind::kVocabParallelCrossEntropy,  // inputs: loss, logits, softmax, mask, masked targets
       {wants({4, 2, 8}), indices({4, 2})},
       [](Inputs& in) { return megatron::vocab_parallel_cross_entropy(in[0], in[1], true); },
       {2, 3, 4}},
  };
}

inline std::vector<Example> megatron_examples() {
  std::vector<Example> all = megatron_linear_examples();
  for (Example& example : megatron_kernel_examples()) all.push_back(std::move(example));
  return all;
}

}  // namespace plimsoll
