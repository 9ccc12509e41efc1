// Pass "offload activations": what a block keeps for its backward is copied to the host after its forward,
// and fetched one block ahead of its backward. The last block's stay: their backward comes at once.
//
//   device   forward of  0     1     2     3    backward of  3     2     1     0
//   copies out              0     1     2
//   copies in                                                2     1     0
//   given back                    0     1     2
//
// So the device holds what two blocks keep at most: that of the block being computed and that of the one
// before, which is on its way. Offloaded are activations of at least `least` bytes whose last reader in the
// forward is a block; parameters, inputs and buffers have other categories. Where a block is computed again,
// what it keeps is its input, and that is what leaves. What nobody reads in the backward (selective recompute
// keeps the results of its ops, read or not) is given back after the block's forward.
// Source: torchtune's OffloadActivations (the choice of tensors, two streams); the schedule is our own.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "program/program.h"

namespace plimsoll {

// Statements of a block's forward and backward in one micro-batch, half open.
struct BlockSpans {
  uint32_t forward_begin = 0, forward_end = 0;
  uint32_t backward_begin = 0, backward_end = 0;
};

struct ActivationOffload {
  Tier to = Tier::kHostPinned;
  Bytes least;
};

// REQUIRES a complete program; of each micro-batch its blocks, in the order of the forward.
Result<void> offload_activations(Program& program, std::span<const std::vector<BlockSpans>> micro_batches,
                                 const ActivationOffload& options);

}  // namespace plimsoll
