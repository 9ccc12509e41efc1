// The floating-point operations of an op's matrix products; a multiply-add counts as two.
//
//   op_flops(program, op)          // mm of [m, k] and [k, n]: 2 m k n
//   section_flops(program, index)  // of its ops in a complete program, without what is computed again
//
// Attention is its two products over all pairs of positions, masked or not, as model flops are counted
// usually. Source: Chowdhery et al., arXiv:2204.02311, appendix B; a training step is three times its forward
// passes.
// Does not model: everything else (norms, activations, softmax: a per cent or two), attention's backward.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "program/program.h"

namespace plimsoll {

Flops op_flops(const Program& program, const Op& op);
Flops section_flops(const Program& program, uint32_t section);

}  // namespace plimsoll
