#include "replay/what_if.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "allocator/caching_heap.h"
#include "allocator/device_memory.h"
#include "trace/trace_state.h"

namespace plimsoll {
namespace {

// Foreign streams are done with a block when the trace says so.
class EventClock final : public StreamClock {
 public:
  Nanoseconds now() const override { return Nanoseconds{now_}; }
  Nanoseconds busy_until(HeapStream) const override { return Nanoseconds{done_at_}; }
  int64_t now_ = 0, done_at_ = 0;
};

constexpr HeapStream kForeignStream = std::numeric_limits<HeapStream>::max();

class Play {
 public:
  Play(const AllocationTrace& trace, const AllocatorSettings& settings, std::optional<Bytes> capacity)
      : trace_(trace),
        device_(capacity),
        heap_({.settings = settings, .device = &device_, .clock = &clock_}) {}

  void run(WhatIf& answer) {
    place_earlier_blocks(answer);
    find_completions();
    for (size_t at = 0; at < trace_.events.size() && !answer.out_of_memory; ++at) play(at, answer);
    const HeapStats stats = heap_.stats();
    answer.peak_reserved = stats.reserved.peak;
    answer.peak_allocated = stats.allocated.peak;
    answer.retries = stats.num_alloc_retries;
  }

 private:
  void place_earlier_blocks(WhatIf& answer) {
    for (const TraceSegment& segment : segments_at_start(trace_))
      for (const TraceBlock& block : segment.blocks)
        if (block.state != BlockState::kFree && !answer.out_of_memory)
          allocate(block.address, block.requested.value > 0 ? block.requested : block.bytes, segment.stream,
                   std::nullopt, answer);
  }

  void allocate(uint64_t address, Bytes bytes, uint64_t stream, std::optional<size_t> event, WhatIf& answer) {
    const Allocation block = heap_.alloc(bytes, stream_of(stream));
    if (block) {
      live_[address] = *block;
      return;
    }
    answer.out_of_memory = block.error();
    answer.out_of_memory_at = event;
  }

  void find_completions() {
    std::unordered_map<uint64_t, size_t> requested;
    completed_at_.assign(trace_.events.size(), std::numeric_limits<int64_t>::max());
    for (size_t at = 0; at < trace_.events.size(); ++at) {
      const AllocationEvent& event = trace_.events[at];
      if (event.action == AllocationAction::kFreeRequested) requested[event.address] = at;
      if (event.action != AllocationAction::kFreeCompleted) continue;
      const auto request = requested.find(event.address);
      if (request == requested.end()) continue;
      completed_at_[request->second] = static_cast<int64_t>(at);
      requested.erase(request);
    }
  }

  void play(size_t at, WhatIf& answer) {
    const AllocationEvent& event = trace_.events[at];
    clock_.now_ = static_cast<int64_t>(at);
    if (event.action == AllocationAction::kAlloc)
      return allocate(event.address, event.bytes, event.stream, at, answer);
    if (event.action == AllocationAction::kSegmentFree) {  // a run of them is one empty_cache()
      if (at == 0 || trace_.events[at - 1].action != AllocationAction::kSegmentFree) heap_.empty_cache();
      return;
    }
    if (event.action != AllocationAction::kFreeRequested) return;
    const auto block = live_.find(event.address);
    if (block == live_.end()) return;
    if (completed_at_[at] != static_cast<int64_t>(at) + 1) {
      heap_.record_stream(block->second, kForeignStream);
      clock_.done_at_ = completed_at_[at];
    }
    heap_.free(block->second);
    live_.erase(block);
  }

  HeapStream stream_of(uint64_t stream) {
    return streams_.try_emplace(stream, static_cast<HeapStream>(streams_.size())).first->second;
  }

  const AllocationTrace& trace_;
  SimulatedDevice device_;
  EventClock clock_;
  CachingHeap heap_;
  std::unordered_map<uint64_t, HeapStream> streams_;
  std::unordered_map<uint64_t, BlockId> live_;  // by recorded address
  std::vector<int64_t> completed_at_;
};

}  // namespace

Result<WhatIf> play_under(const AllocationTrace& trace, const std::string& configuration,
                          std::optional<Bytes> capacity) {
  PLIMSOLL_TRY(settings, parse_allocator_settings(configuration, "--alloc-conf"));
  WhatIf answer{.configuration = configuration, .capacity = capacity};
  Play(trace, settings, capacity).run(answer);
  return answer;
}

}  // namespace plimsoll
