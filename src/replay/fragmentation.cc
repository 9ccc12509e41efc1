#include "replay/fragmentation.h"

#include <algorithm>

namespace plimsoll {
namespace {

StrandedSegment counted(const TraceSegment& segment) {
  StrandedSegment s{.address = segment.address, .bytes = segment.bytes};
  for (const TraceBlock& block : segment.blocks) {
    if (block.state == BlockState::kFree) {
      s.free += block.bytes;
      s.largest_free = std::max(s.largest_free, block.bytes);
      continue;
    }
    if (s.live_blocks++ > 0 && block.bytes >= s.pinned_bytes) continue;
    s.pinned_by = block.address;
    s.pinned_bytes = block.bytes;
  }
  return s;
}

}  // namespace

Fragmentation fragmentation_of(const std::vector<TraceSegment>& segments) {
  Fragmentation f;
  for (const TraceSegment& segment : segments) {
    const StrandedSegment s = counted(segment);
    f.reserved += s.bytes;
    f.allocated += s.bytes - s.free;
    if (s.live_blocks == 0) {
      f.cached += s.bytes;
      ++f.cached_segments;
    } else if (s.free.value > 0) {
      f.stranded += s.free;
      f.segments.push_back(s);
    }
  }
  std::ranges::stable_sort(f.segments, std::greater(), &StrandedSegment::free);
  return f;
}

}  // namespace plimsoll
