// Pass "sum products": a matrix product that is only made to be added to another tensor is added by the
// product itself, so that it has no storage and is not written and read again:
//
//   t = mm(a, b); u = add_(d, t); free t        ->   u = addmm.out(d, a, b)
//
// Gradients of linear layers are such products, added to the flat gradient of their unit; so are those of a
// tensor that several linear layers read. Where `d` is made
// between the two (zeros and the views of it), it is made before the product. fp32 only: on CPUs ATen adds no
// product of bf16 to fp32. Leaves everything else as it is.
#pragma once

#include "base/result.h"
#include "program/program.h"

namespace plimsoll {

// REQUIRES a complete program.
Result<void> sum_products(Program& program);

}  // namespace plimsoll
