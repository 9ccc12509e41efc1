// Takes stacks over from one table into another, each when it is first asked for: so a trace that was one of
// several in a file keeps those that it uses, and no more.
//
//   StackMover mover(all, own);
//   for (AllocationEvent& event : events) if (event.stack) event.stack = mover.moved(*event.stack);
#pragma once

#include <limits>
#include <vector>

#include "trace/allocation_trace.h"
#include "trace/stack_table.h"

namespace plimsoll {

class StackMover {
 public:
  StackMover(const StackTable& from, StackTable& to)
      : from_(from), to_(to), stacks_(from.size(), kNone), frames_(from.num_frames(), kNone) {}

  StackId moved(StackId id) {
    if (stacks_[id] != kNone) return stacks_[id];
    members_.clear();
    for (const FrameId frame : from_.frames_of(id)) {
      if (frames_[frame] == kNone) frames_[frame] = to_.add_frame(from_.frame(frame));
      members_.push_back(frames_[frame]);
    }
    return stacks_[id] = to_.add(members_);
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  const StackTable& from_;
  StackTable& to_;
  std::vector<uint32_t> stacks_, frames_;  // of `from`: their number in `to`
  std::vector<FrameId> members_;           // of the stack that is moved
};

// Fills trace.stacks, and leads all that the trace holds there. REQUIRES its ids are of `all`.
inline void take_own_stacks(AllocationTrace& trace, const StackTable& all) {
  StackTable own;
  StackMover mover(all, own);
  for (AllocationEvent& event : trace.events)
    if (event.stack) event.stack = mover.moved(*event.stack);
  for (TraceSegment& segment : trace.segments) {
    if (segment.stack) segment.stack = mover.moved(*segment.stack);
    for (TraceBlock& block : segment.blocks)
      if (block.stack) block.stack = mover.moved(*block.stack);
  }
  trace.stacks = std::move(own);
}

}  // namespace plimsoll
