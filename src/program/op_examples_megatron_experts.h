// Examples of the ops of mixtures of experts and latent attention, for op_table_test.cc. What is kept
// restates the save_for_backward of each function.
#pragma once

#include "program/op_example.h"
#include "program/ops_megatron_experts.h"

namespace plimsoll {

inline std::vector<Example> megatron_expert_examples() {
  return {
      {OpKind::kIndexSelect,
       {wants({6, 4}), indices({8})},
       [](Inputs& in) { return megatron::index_select(in[0], in[1]); },
       {1}},
      {OpKind::kIndexAddInPlace,
       {wants({6, 4}), indices({8}), wants({8, 4})},
       [](Inputs& in) { return megatron::index_add_(ops::clone(in[0]), in[1], in[2]); },
       {1, 2}},
      {OpKind::kScatterAddInPlace,
       {wants({6, 4}), indices({8}), wants({8, 4})},
       [](Inputs& in) { return megatron::scatter_add_rows_(ops::clone(in[0]), in[1], in[2]); },
       {1}},
      {OpKind::kLogSumExp,
       {wants({4, 3})},
       [](Inputs& in) { return megatron::log_sum_exp(in[0]); },
       {0},
       {0}},
      {OpKind::kMaskedSelect,
       {wants({4, 2}), mask({4, 2})},
       [](Inputs& in) { return megatron::masked_select(in[0], in[1], 4); },
       {0, 1}},
      {OpKind::kRouterGating,  // inputs: logits, x, weight, bias
       {wants({4, 2, 8}), wants({3, 8}), wants({3})},
       [](Inputs& in) { return megatron::router_gating(in[0], in[1], in[2], kFloat); },
       {1, 2}},
      {OpKind::kAuxiliaryLoss,
       {wants({4, 3}), wants({1}, kFloat)},
       [](Inputs& in) { return megatron::attach_auxiliary_loss(ops::clone(in[0]), in[1]); },
       {1}},
      {OpKind::kAllToAllFunction, {wants({4, 8})}, [](Inputs& in) { return megatron::all_to_all(in[0], 6); }},
      {OpKind::kWeightedSwiglu,
       {wants({4, 8}), wants({4, 1}, kFloat)},
       [](Inputs& in) { return megatron::weighted_swiglu(in[0], in[1]); },
       {0, 1}},
      {OpKind::kLatentRopeQuery,
       {wants({4, 2, 3, 8}), plain({4, 1, 1, 4}), plain({4, 1, 1, 4})},
       [](Inputs& in) { return megatron::latent_rope_query(ops::clone(in[0]), in[1], in[2]); },
       {1, 2}},
      {OpKind::kLatentRopeKeyValue,
       {wants({4, 2, 3, 8}), wants({4, 2, 1, 4}), plain({4, 1, 1, 4}), plain({4, 1, 1, 4})},
       [](Inputs& in) { return megatron::latent_rope_key_value(in[0], in[1], in[2], in[3], 4).key; },
       {2, 3}},
      {OpKind::kTeGroupedLinear,  // inputs: result, x, weights
       {wants({4, 8}), wants({6, 8}), wants({6, 8})},
       [](Inputs& in) {
         return megatron::te_grouped_linear(in[0], std::vector<Value>{in[1], in[2]}, {});
       },
       {1, 2, 3}},
      {OpKind::kTePermute,  // results: row map, scratch, tokens, probs
       {wants({4, 8}), wants({4, 3}), mask({4, 3})},
       [](Inputs& in) { return megatron::te_permute(in[0], in[1], in[2], 8).tokens; },
       {},
       {0}},
      {OpKind::kTeUnpermute,
       {wants({8, 4}), indices({4, 7})},
       [](Inputs& in) { return megatron::te_unpermute(in[0], in[1], 4); },
       {1}},
      {OpKind::kTeSortChunks,  // results: row map, tokens, probs
       {wants({8, 4}), wants({8})},
       [](Inputs& in) { return megatron::te_sort_chunks(in[0], in[1]).tokens; },
       {},
       {0}},
  };
}

}  // namespace plimsoll
