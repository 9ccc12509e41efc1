// A model as torchtitan's own code has it: its modules' names, the order in which they are registered, its
// buffers.
#pragma once

#include "base/result.h"
#include "model/architecture.h"

namespace plimsoll::torchtitan {

// `sequence`: training.seq_len, for which the rotary table is made. Errors: a parameter that torchtitan's
// model doesn't have.
Result<Architecture> torchtitan_architecture(const Architecture& architecture, int64_t sequence);

}  // namespace plimsoll::torchtitan
