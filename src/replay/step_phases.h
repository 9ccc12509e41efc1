// The phases of training steps in a trace: which forward, backward or optimizer step each event is of.
//
//   stacks      F F ? F   B B B   O O   F F F    B B B
//   phases     |forward |backward|step |forward |backward|
//
// A simulated trace names them: the program's phases are its annotations (trace/simulated_stack.h), each of
// them one. A recorded one is told by the stacks of its allocs (replay/stack_roles.h), an optimizer that
// allocates nothing by its annotation "Optimizer.step#...". What nothing tells is of whichever phase runs;
// where no stack shows a forward, what isn't known counts as one. By stacks two forwards with nothing between
// look like one, and an optimizer that steps within a backward comes and goes: so a backward or optimizer
// step is counted once after each forward, and the counts are the least that there were.
//
//   const StepPhases phases = find_step_phases(trace, meanings_of(trace.stacks));
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "replay/stack_roles.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

enum class StepPhase : uint8_t { kNone, kForward, kBackward, kOptimizer };

enum class PhasesToldBy : uint8_t {
  kNothing,    // neither stacks nor annotations
  kRecording,  // stacks, and annotations of optimizers
  kSimulation  // the program's own
};

struct PhaseRun {
  size_t first = 0;  // its first event; may be that of the next run, or behind the last event
  StepPhase phase = StepPhase::kNone;
};

struct StepPhases {
  PhasesToldBy told_by = PhasesToldBy::kNothing;
  std::vector<PhaseRun> runs;  // by `first`; events before the first run are of none
  // Empty: the trace can't tell.
  std::optional<int64_t> forwards, backwards, optimizer_steps;
};

// `meanings` by stack.
StepPhases find_step_phases(const AllocationTrace& trace, std::span<const StackMeaning> meanings);

}  // namespace plimsoll
