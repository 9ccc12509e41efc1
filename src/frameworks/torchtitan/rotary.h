// Rotary positions as torchtitan's models compute them.
#pragma once

#include "program/ops.h"

namespace plimsoll::torchtitan {

struct Turned {
  Value q, k;
};
// apply_rotary_emb of models/llama3: products of pairs of neighbours, as complex numbers in fp32. q and k [b,
// s, heads, d], table complex64 [positions, d / 2].
Turned apply_complex_rotary(const Value& q, const Value& k, const Value& table);
// apply_rotary_emb of models/qwen3: x * cos + rotate_half(x) * sin. table [positions, 2 d]: cosines, then
// sines.
Turned apply_halves_rotary(const Value& q, const Value& k, const Value& table);

}  // namespace plimsoll::torchtitan
