#include "allocator/stream_events.h"

#include <algorithm>

namespace plimsoll {

void StreamEvents::add_use(uint32_t block, HeapStream stream) {
  std::vector<HeapStream>& streams = uses_[block];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

std::vector<HeapStream> StreamEvents::take_uses(uint32_t block) {
  auto node = uses_.extract(block);
  return node.empty() ? std::vector<HeapStream>{} : std::move(node.mapped());
}

void StreamEvents::push(HeapStream stream, Nanoseconds passes_at, uint32_t block) {
  queues_[stream].push_back({.passes_at = passes_at, .block = block});
  ++pending_;
}

}  // namespace plimsoll
