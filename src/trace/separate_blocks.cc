#include "trace/separate_blocks.h"

#include <cassert>
#include <utility>

namespace plimsoll {

void SeparateBlocks::record(AllocationAction action, uint64_t address, Bytes bytes, StackId stack,
                            Nanoseconds time) {
  trace_.events.push_back(
      {.action = action, .stack = stack, .address = address, .bytes = bytes, .time = time});
}

void SeparateBlocks::alloc(uint64_t address, Bytes bytes, StackId stack, Nanoseconds time) {
  assert(!live_.contains(address));
  record(AllocationAction::kSegmentAlloc, address, bytes, stack, time);
  live_[address] = {.bytes = bytes, .stack = stack, .event = trace_.events.size()};
  record(AllocationAction::kAlloc, address, bytes, stack, time);
}

void SeparateBlocks::free(uint64_t address, Nanoseconds time) {
  const auto found = live_.find(address);
  assert(found != live_.end());
  const auto [bytes, stack, event] = found->second;
  live_.erase(found);
  record(AllocationAction::kFreeRequested, address, bytes, stack, time);
  record(AllocationAction::kFreeCompleted, address, bytes, stack, time);
  record(AllocationAction::kSegmentFree, address, bytes, stack, time);
}

void SeparateBlocks::set_stack(uint64_t address, StackId stack) {
  Live& block = live_.at(address);
  block.stack = stack;
  trace_.events[block.event].stack = stack;
  trace_.events[block.event - 1].stack = stack;
}

void SeparateBlocks::end_annotation(Nanoseconds time) {
  if (annotation_.empty()) return;
  trace_.annotations.push_back({.time = time, .name = std::exchange(annotation_, {}), .is_end = true});
}

void SeparateBlocks::begin(const std::string& name, Nanoseconds time) {
  end_annotation(time);
  trace_.annotations.push_back({.time = time, .name = name});
  annotation_ = name;
}

AllocationTrace SeparateBlocks::take(Nanoseconds time) {
  end_annotation(time);
  for (const auto& [address, block] : live_)
    trace_.segments.push_back({.address = address,
                               .bytes = block.bytes,
                               .is_large = true,
                               .stack = block.stack,
                               .blocks = {{.address = address,
                                           .bytes = block.bytes,
                                           .requested = block.bytes,
                                           .state = BlockState::kAllocated,
                                           .stack = block.stack}}});
  live_.clear();
  return std::exchange(trace_, {});
}

}  // namespace plimsoll
