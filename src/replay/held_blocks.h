// Blocks that outlive their last possible use. A trace shows no uses, only when blocks came and went, so this
// is inferred, from the steps that the trace shows:
//
//   forward     backward        optimizer    forward     backward
//   |-- made --|-- last use --|-- held ----- ---------|-- freed
//
// What a forward made is needed until the backward behind it has ended: autograd lets go of it then, the
// program may not. A gradient is needed until the optimizer's step has ended, and counts as held when the
// next forward begins. What is freed while a backward runs was used by it, whichever forward made it
// (pipelines, optimizers that step inside the backward). What one forward of several made and nobody freed is
// a cache, and left out.
//
// What is forward, backward and optimizer is replay/step_phases.h's. Does not model: a second backward
// through the same graph, tensors that the program itself still reads.
//
//   const HeldBlocks held = find_held_blocks(trace, phases, meanings, block_bytes, peak_event);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "replay/stack_roles.h"
#include "replay/step_phases.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

enum class HeldKind : uint8_t { kOfForward, kGradient };

enum class HeldUntil : uint8_t {
  kStepEnd,      // freed before the next forward began
  kNextForward,  // freed in the next forward, as when its result replaces them
  kLater,        // freed after that
  kGrowing,      // each step leaves more, and nothing frees them
  kKept,         // gradients that the first step made and no step frees
  kDump          // alive at the end of the only step that the trace shows
};

// Of one line of code.
struct HeldLine {
  std::optional<FrameId> frame;       // StackMeaning::shown_frame
  std::optional<FrameId> call_frame;  // StackMeaning::call_frame
  HeldKind kind = HeldKind::kOfForward;
  HeldUntil until = HeldUntil::kStepEnd;
  int64_t blocks = 0;
  int64_t steps = 0;  // that left some
  Bytes most;         // held at a time
  Bytes at_peak;      // when allocated memory peaked
};

struct HeldBlocks {
  int64_t backwards = 0;        // that were seen to end
  std::vector<HeldLine> lines;  // largest `most` first
  Bytes at_peak;
};

// `block_bytes` by event of an alloc; `peak` is the event after which allocated memory peaked.
HeldBlocks find_held_blocks(const AllocationTrace& trace, const StepPhases& phases,
                            std::span<const StackMeaning> meanings, std::span<const Bytes> block_bytes,
                            std::optional<size_t> peak);

}  // namespace plimsoll
