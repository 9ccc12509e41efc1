#include "allocator/stream_events.h"

#include <algorithm>

namespace plimsoll {

void StreamEvents::add_use(uint32_t block, HeapStream stream, bool is_in_capture) {
  std::vector<Use>& uses = uses_[block];
  const auto known = std::ranges::find(uses, stream, &Use::stream);
  if (known == uses.end())
    uses.push_back({.stream = stream, .is_in_capture = is_in_capture});
  else
    known->is_in_capture = known->is_in_capture || is_in_capture;
}

std::vector<HeapStream> StreamEvents::take_uses(uint32_t block) { return take_uses(block, true); }
std::vector<HeapStream> StreamEvents::take_uses_before_capture(uint32_t block) {
  return take_uses(block, false);
}

std::vector<HeapStream> StreamEvents::take_uses(uint32_t block, bool takes_captured) {
  std::vector<HeapStream> streams;
  const auto node = uses_.extract(block);
  if (node.empty()) return streams;
  for (const Use& use : node.mapped())
    if (takes_captured || !use.is_in_capture) streams.push_back(use.stream);
  return streams;
}

void StreamEvents::push(HeapStream stream, Nanoseconds passes_at, uint32_t block) {
  queues_[stream].push_back({.passes_at = passes_at, .block = block});
  ++pending_;
}

}  // namespace plimsoll
