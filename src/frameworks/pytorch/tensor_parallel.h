// Tensor parallelism as PyTorch's parallelize_module does it with ColwiseParallel on q, k, v, gate and up
// projections and RowwiseParallel on o and down: everything else is replicated, and activations between
// blocks are whole on every rank.
//
//   rank r holds   q_proj.weight [heads / t * head_dim, hidden]      o_proj.weight [hidden, heads / t *
//   head_dim]
//
// A column-wise linear's input gradient is partial and summed by an all-reduce of its own for each linear; a
// row-wise linear's output is partial and summed in the forward. Both all-reduces make a new tensor
// (functional collectives). Source: torch/distributed/tensor/parallel/style.py,
// torch/distributed/_functional_collectives.py. Does not model: sequence parallelism, loss parallelism, a
// vocabulary-parallel embedding or head.
#pragma once

#include <string_view>

#include "model/architecture.h"

namespace plimsoll::pytorch {

enum class LinearSplit { kNone, kColumns, kRows };

// Of a linear module by its name, "self_attn.q_proj" or "q_proj".
LinearSplit split_of(std::string_view module);

// What one rank holds: heads, key/value heads, feed-forward width and the parameters of split linears are
// divided. REQUIRES that they divide (strategy checks it). Degree 1 gives the same architecture.
Architecture local_architecture(const Architecture& architecture, int64_t degree);

}  // namespace plimsoll::pytorch
