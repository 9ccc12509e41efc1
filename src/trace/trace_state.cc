#include "trace/trace_state.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "base/block.h"

namespace plimsoll {
namespace {

constexpr int64_t kLargestSlack = int64_t{1} << 20;  // of a block in the large pool

class Undo {
 public:
  explicit Undo(const AllocationTrace& trace) {
    for (const TraceSegment& segment : trace.segments) {
      segments_[segment.address] = segment;
      segments_[segment.address].blocks.clear();
      for (const TraceBlock& block : segment.blocks) {
        if (block.state != BlockState::kFree) live_[block.address] = block;
      }
    }
    for (const AllocationEvent& event : std::views::reverse(trace.events)) undo(event);
    find_tails(trace);
  }

  std::vector<TraceSegment> segments() {
    std::vector<TraceSegment> all;
    for (auto& [address, segment] : segments_) {
      const bool overlaps =
          !all.empty() && address - all.back().address < static_cast<uint64_t>(all.back().bytes.value);
      if (overlaps || segment.bytes.value <= 0) continue;
      tile(segment);
      all.push_back(std::move(segment));
    }
    return all;
  }

 private:
  void undo(const AllocationEvent& event) {
    switch (event.action) {
      case AllocationAction::kAlloc:
        live_.erase(event.address);
        freed_.erase(event.address);
        break;
      case AllocationAction::kFreeCompleted:
        freed_.insert(event.address);
        live_[event.address] = {.address = event.address,
                                .bytes = round_to_block(event.bytes),
                                .requested = event.bytes,
                                .state = BlockState::kPendingFree,
                                .stack = event.stack};
        break;
      case AllocationAction::kFreeRequested:
        if (const auto block = live_.find(event.address); block != live_.end()) {
          block->second.state = BlockState::kAllocated;
        }
        break;
      case AllocationAction::kSegmentAlloc:
        segments_.erase(event.address);
        break;
      case AllocationAction::kSegmentFree:
        segments_[event.address] = segment_of(event, false);
        break;
      case AllocationAction::kSegmentMap:
        unmap(event);
        break;
      case AllocationAction::kSegmentUnmap:
        segments_[event.address] = segment_of(event, true);
        join_neighbours(event.address);
        break;
      case AllocationAction::kOutOfMemory:
      case AllocationAction::kSnapshot:
      case AllocationAction::kUserDefined:
        break;
    }
  }

  // Segments of 2 MiB are those of the small pool, as are expandable pages of that size.
  static TraceSegment segment_of(const AllocationEvent& event, bool is_expandable) {
    return {.address = event.address,
            .bytes = event.bytes,
            .stream = event.stream,
            .is_large = event.bytes > kMiB * 2,
            .is_expandable = is_expandable,
            .stack = event.stack};
  }

  // A block of the large pool may be up to 1 MiB larger than its request. Its end shows where the first
  // allocation into the free memory behind it lands, as long as the block itself is not freed.
  void find_tails(const AllocationTrace& trace) {
    std::map<uint64_t, TraceBlock*> by_end;  // blocks whose size the trace doesn't say
    for (auto& [address, block] : live_)
      if (block.state == BlockState::kAllocated && freed_.contains(address) && is_in_large_pool(address))
        by_end[end_of(block)] = &block;
    for (const AllocationEvent& event : trace.events) {
      if (event.action == AllocationAction::kFreeRequested && freed_.contains(event.address)) {
        const auto block = live_.find(event.address);
        if (block != live_.end()) by_end.erase(end_of(block->second));
      }
      if (event.action != AllocationAction::kAlloc || by_end.empty()) continue;
      auto before = by_end.upper_bound(event.address);
      if (before == by_end.begin()) continue;
      --before;
      const auto next = live_.lower_bound(before->first);
      if (next != live_.end() && next->first <= event.address) continue;  // another block lies between
      const auto tail = static_cast<int64_t>(event.address - before->first);
      if (tail <= kLargestSlack) before->second->bytes += Bytes{tail};
      by_end.erase(before);
    }
  }
  static uint64_t end_of(const TraceBlock& block) {
    return block.address + static_cast<uint64_t>(block.bytes.value);
  }
  bool is_in_large_pool(uint64_t address) const {
    auto at = segments_.upper_bound(address);
    return at != segments_.begin() && std::prev(at)->second.is_large && !std::prev(at)->second.is_expandable;
  }

  static uint64_t end_of(const TraceSegment& segment) {
    return segment.address + static_cast<uint64_t>(segment.bytes.value);
  }

  // Takes a range out of the mapped segment that holds it.
  void unmap(const AllocationEvent& event) {
    auto at = segments_.upper_bound(event.address);
    if (at == segments_.begin()) return;
    --at;
    const TraceSegment whole = at->second;
    const uint64_t end = event.address + static_cast<uint64_t>(event.bytes.value);
    if (end > end_of(whole)) return;
    segments_.erase(at);
    if (event.address > whole.address) {
      TraceSegment front = whole;
      front.bytes = Bytes{static_cast<int64_t>(event.address - whole.address)};
      segments_[front.address] = front;
    }
    if (end < end_of(whole)) {
      TraceSegment back = whole;
      back.address = end;
      back.bytes = Bytes{static_cast<int64_t>(end_of(whole) - end)};
      segments_[back.address] = back;
    }
  }

  void join_neighbours(uint64_t address) {
    auto at = segments_.find(address);
    const auto next = std::next(at);
    if (next != segments_.end() && is_continued_by(at->second, next->second)) {
      at->second.bytes += next->second.bytes;
      at->second.is_large = next->second.is_large;
      segments_.erase(next);
    }
    if (at == segments_.begin()) return;
    const auto before = std::prev(at);
    if (!is_continued_by(before->second, at->second)) return;
    before->second.bytes += at->second.bytes;
    segments_.erase(at);
  }
  static bool is_continued_by(const TraceSegment& segment, const TraceSegment& next) {
    return next.is_expandable && segment.is_expandable && next.stream == segment.stream &&
           end_of(segment) == next.address;
  }

  // Lists the live blocks of the segment with free ones in the gaps.
  void tile(TraceSegment& segment) const {
    uint64_t at = segment.address;
    const uint64_t end = end_of(segment);
    for (auto block = live_.lower_bound(at); block != live_.end() && block->first < end; ++block) {
      const bool fits = block->first >= at && block->second.bytes.value > 0 &&
                        static_cast<uint64_t>(block->second.bytes.value) <= end - block->first;
      if (!fits) continue;  // contradicts the blocks before it
      add_gap(segment, at, block->first);
      segment.blocks.push_back(block->second);
      at = block->first + static_cast<uint64_t>(block->second.bytes.value);
    }
    add_gap(segment, at, end);
  }
  static void add_gap(TraceSegment& segment, uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    const Bytes gap{static_cast<int64_t>(end - begin)};
    const bool is_slack = segment.is_large && !segment.is_expandable && gap.value <= kLargestSlack;
    if (is_slack && !segment.blocks.empty() && segment.blocks.back().state != BlockState::kFree) {
      segment.blocks.back().bytes += gap;
    } else {
      segment.blocks.push_back({.address = begin, .bytes = gap});
    }
  }

  std::map<uint64_t, TraceSegment> segments_;  // by address
  std::map<uint64_t, TraceBlock> live_;        // by address
  std::set<uint64_t> freed_;                   // of live_: freed in the trace, which tells only the request
};

}  // namespace

std::vector<TraceSegment> segments_at_start(const AllocationTrace& trace) { return Undo(trace).segments(); }

}  // namespace plimsoll
