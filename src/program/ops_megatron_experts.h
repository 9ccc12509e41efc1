// Ops of Megatron-Core's mixtures of experts and latent attention, and of Transformer Engine's kernels for
// them. How they stand to
// autograd: see ops_megatron.h.
//
//   Value logits = megatron::router_gating(x, weight, {}, DType::kFloat32);  // [.., h] -> [.., experts]
//   megatron::Routed sent = megatron::te_permute(x, probs, map, rows);       // rows of one expert together
//
// Source: megatron/core/transformer/moe/{router,moe_utils,token_dispatcher}.py, megatron/core/
// tensor_parallel/mappings.py, megatron/core/fusions/{fused_bias_swiglu,
// fused_mla_yarn_rope_apply}.py (Megatron-LM);
// transformer_engine/pytorch/{permutation.py,triton/permutation.py,module/grouped_linear.py}.
#pragma once

#include "program/ops_megatron.h"

namespace plimsoll::megatron {

// ---- rows by index ----
Value index_select(Value x, Value index);  // x[index], [rows, ..]
Value index_add_(Value x, Value index, Value source);
Value scatter_add_rows_(Value x, Value index, Value source);  // the index is expanded along the rows
Value masked_select(Value x, Value mask, int64_t elements);   // so many are chosen
Value log_sum_exp(Value x);                                   // over the last dim

// ---- Megatron-Core ----
// x [.., h] times weight [experts, h], computed and kept in `dtype`; bias may be undefined.
Value router_gating(Value x, Value weight, Value bias, DType dtype);
// `output` again; in the backward the loss gets a gradient too.
Value attach_auxiliary_loss(Value output, Value loss);
// gather_from_sequence_parallel into a buffer that is there: the result is a part of it.
Value gather_into_buffer(Value x, Value buffer, int64_t ranks);
// Rows sent to and received from the expert-parallel ranks: x [n, ..] -> [rows, ..].
Value all_to_all(Value x, int64_t rows);
// silu of the first half times the second, times each row's weight [n, 1].
Value weighted_swiglu(Value x, Value weights);

// Positions of latent attention, by tables of cosines and sines [s, 1, 1, d]: of queries [s, b, heads, ..] in
// place; keys and values of kv [s, b, heads, nope + v] and the keys' shared part k_rope [s, b, 1, d].
Value latent_rope_query(Value q, Value cos, Value sin);
struct KeyValue {
  Value key, value;
};
KeyValue latent_rope_key_value(Value kv, Value k_rope, Value cos, Value sin, int64_t nope);

// ---- Transformer Engine ----
struct Routed {
  Value tokens, probs;  // probs: undefined where none came in
  Value row_map;        // by which the rows are put back
};
// tokens [n, h], probs and routing_map [n, experts] -> [rows, h], [rows].
Routed te_permute(Value tokens, Value probs, Value routing_map, int64_t rows);
Value te_unpermute(Value tokens, Value row_map, int64_t rows);  // summed to [rows, h]
Routed te_sort_chunks(Value tokens, Value probs);
// Each weight [out, in] times its part of the rows of x [n, in]. `dummy_gradient`: of every weight.
Value te_grouped_linear(Value x, const std::vector<Value>& weights, Value dummy_gradient);

}  // namespace plimsoll::megatron
