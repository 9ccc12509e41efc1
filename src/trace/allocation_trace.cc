#include "trace/allocation_trace.h"

#include <utility>

namespace plimsoll {

StackId AllocationTrace::add_stack(std::vector<StackFrame> frames) {
  stacks.push_back(std::move(frames));
  return static_cast<StackId>(stacks.size() - 1);
}

}  // namespace plimsoll
