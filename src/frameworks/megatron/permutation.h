// permute() and unpermute() of moe_utils.py: rows of one expert together, and back.
#pragma once

#include "frameworks/megatron/experts.h"

namespace plimsoll::megatron {

struct Permutation {
  Value tokens, probs;  // probs: undefined where none came in
  Value rows;           // where each row came from: sorted_indices, or the fused kernel's map
};
Permutation permuted(Writer& w, Value tokens, const Value& map, const Value& probs, int64_t rows);
// With a capacity that every expert is padded to.
Permutation permuted_to_capacity(Value tokens, const Value& map, const Value& probs, int64_t capacity);
Value unpermuted(Writer& w, Value rows_of_tokens, const Value& rows, int64_t tokens, int64_t hidden);

}  // namespace plimsoll::megatron
