// Angles of rotary positions.
// Source: transformers/modeling_rope_utils.py, 5.24: default, linear and llama3, computed in fp32 as there.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/architecture.h"

namespace plimsoll::runtime {

// cos and sin [sequence, rotary_dim / 2], fp32. REQUIRES a rope_type that strategy/native_checks.cc accepts.
void fill_rotary_table(const Architecture& architecture, at::Tensor& cos, at::Tensor& sin);

}  // namespace plimsoll::runtime
