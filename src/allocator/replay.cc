#include "allocator/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "allocator/caching_heap.h"
#include "allocator/device_memory.h"
#include "trace/trace_state.h"

namespace plimsoll {
namespace {

constexpr size_t kMostStreams = 1000;  // PyTorch has 32 in a pool; more is no real trace

// Gives a segment the recorded address if one of its size was recorded for this moment, or else one far away.
class RecordedDevice final : public DeviceMemory {
 public:
  std::optional<uint64_t> allocate(uint64_t size) override {
    const auto match = std::find_if(expected_.begin(), expected_.end(), [&](const AllocationEvent& event) {
      return static_cast<uint64_t>(event.bytes.value) == size;
    });
    if (match == expected_.end()) {
      ++extra_;
      return elsewhere_.allocate(size);
    }
    const uint64_t address = match->address;
    expected_.erase(match);
    ++matched_;
    return address;
  }
  void release(uint64_t, uint64_t) override {}
  std::optional<uint64_t> reserve_addresses(uint64_t size) override {
    return elsewhere_.reserve_addresses(size);
  }
  bool map(uint64_t address, uint64_t size) override { return elsewhere_.map(address, size); }
  void unmap(uint64_t address, uint64_t size) override { elsewhere_.unmap(address, size); }
  std::optional<Bytes> free_bytes() const override { return std::nullopt; }
  std::optional<Bytes> total_bytes() const override { return std::nullopt; }

  void expect(const AllocationEvent& segment) { expected_.push_back(segment); }
  void forget_expected() { expected_.clear(); }
  int64_t matched() const { return matched_; }
  int64_t extra() const { return extra_; }

 private:
  SimulatedDevice elsewhere_;
  std::vector<AllocationEvent> expected_;
  int64_t matched_ = 0, extra_ = 0;
};

// A clock by which foreign streams are done with a block when the trace says so: each free gets its own
// moment.
class RecordedClock final : public StreamClock {
 public:
  Nanoseconds now() const override { return Nanoseconds{now_}; }
  Nanoseconds busy_until(HeapStream) const override { return Nanoseconds{done_at_}; }
  void set_now(int64_t event) { now_ = event; }
  void set_done_at(int64_t event) { done_at_ = event; }

 private:
  int64_t now_ = 0, done_at_ = 0;
};

class Replay {
 public:
  Replay(const AllocationTrace& trace, const AllocatorSettings& settings, ReplayObserver* observer)
      : trace_(trace),
        observer_(observer),
        heap_({.settings = settings, .device = &device_, .clock = &clock_}) {}

  ReplayResult run() {
    find_completions();
    for (const TraceSegment& segment : segments_at_start(trace_)) adopt(segment);
    if (observer_) observer_->before_events(heap_);
    for (size_t event = 0; event < trace_.events.size(); ++event) {
      play(event);
      if (observer_) observer_->after_event(event, heap_);
    }
    clock_.set_now(static_cast<int64_t>(trace_.events.size()));
    result_.same_segments = device_.matched();
    result_.extra_segments = device_.extra();
    result_.stats = heap_.stats();
    result_.segments_at_end = heap_.segments();
    for (TraceSegment& segment : result_.segments_at_end) segment.stream = recorded_streams_[segment.stream];
    return std::move(result_);
  }

 private:
  static constexpr size_t kNever = std::numeric_limits<int64_t>::max();

  // For each free_requested the event at which it is completed.
  void find_completions() {
    std::unordered_map<uint64_t, size_t> requested;  // by address
    completed_at_.resize(trace_.events.size());
    for (size_t at = 0; at < trace_.events.size(); ++at) {
      const AllocationEvent& event = trace_.events[at];
      completed_at_[at] = kNever;
      if (event.action == AllocationAction::kFreeRequested) requested[event.address] = at;
      if (event.action != AllocationAction::kFreeCompleted) continue;
      if (const auto request = requested.find(event.address); request != requested.end()) {
        completed_at_[request->second] = at;
        requested.erase(request);
      }
    }
  }

  void adopt(const TraceSegment& segment) {
    const std::vector<BlockId> blocks = heap_.adopt(segment, stream_of(segment.stream));
    size_t next = 0;
    for (const TraceBlock& block : segment.blocks) {
      if (block.state == BlockState::kFree) continue;
      if (block.state == BlockState::kPendingFree) waiting_at_start_.insert(block.address);
      if (observer_) observer_->on_block(std::nullopt, block.address, block.bytes);
      live_[block.address] = blocks[next++];
    }
  }

  void play(size_t at) {
    const AllocationEvent& event = trace_.events[at];
    clock_.set_now(static_cast<int64_t>(at));
    if (event.action != AllocationAction::kSegmentFree) is_releasing_ = false;
    switch (event.action) {
      case AllocationAction::kAlloc:
        return alloc(at);
      case AllocationAction::kFreeRequested:
        return free(at);
      case AllocationAction::kFreeCompleted:
        return complete(event.address);
      case AllocationAction::kSegmentAlloc:
        ++result_.segments;
        return device_.expect(event);
      case AllocationAction::kSegmentFree:
        if (!is_releasing_) heap_.empty_cache();
        is_releasing_ = true;
        return;
      default:
        return;
    }
  }

  void alloc(size_t at) {
    const AllocationEvent& event = trace_.events[at];
    ++result_.allocations;
    const Allocation block = heap_.alloc(event.bytes, stream_of(event.stream));
    device_.forget_expected();
    if (!block) return;
    const uint64_t address = heap_.block_address(*block);
    if (address == event.address)
      ++result_.same_address;
    else if (!result_.first_divergence)
      result_.first_divergence = Divergence{.event = at, .recorded = event.address, .replayed = address};
    if (observer_) observer_->on_block(at, event.address, heap_.block_size(*block));
    live_[event.address] = *block;
  }

  void free(size_t at) {
    const auto block = live_.find(trace_.events[at].address);
    if (block == live_.end()) {
      ++result_.unknown_frees;
      return;
    }
    if (completed_at_[at] != at + 1) {
      heap_.record_stream(block->second, kForeignStream);
      clock_.set_done_at(static_cast<int64_t>(completed_at_[at]));
    }
    heap_.free(block->second);
    live_.erase(block);
  }

  // Only of a block that was freed before the trace; the others' moments are known to the clock.
  void complete(uint64_t address) {
    const auto block = live_.find(address);
    if (waiting_at_start_.erase(address) == 0 || block == live_.end()) return;
    heap_.free(block->second);
    live_.erase(block);
  }

  HeapStream stream_of(uint64_t stream) {
    const auto [place, is_new] = streams_.try_emplace(stream, static_cast<HeapStream>(streams_.size()));
    if (is_new) recorded_streams_.push_back(stream);
    return place->second;
  }

  static constexpr HeapStream kForeignStream = std::numeric_limits<HeapStream>::max();

  const AllocationTrace& trace_;
  ReplayObserver* observer_;
  RecordedDevice device_;
  RecordedClock clock_;
  CachingHeap heap_;
  std::map<uint64_t, HeapStream> streams_;      // as recorded to dense numbers
  std::vector<uint64_t> recorded_streams_;      // and back
  std::unordered_map<uint64_t, BlockId> live_;  // by recorded address
  std::set<uint64_t> waiting_at_start_;         // addresses
  std::vector<size_t> completed_at_;
  bool is_releasing_ = false;
  ReplayResult result_;
};

bool has_expandable_segments(const AllocationTrace& trace) {
  return std::any_of(trace.segments.begin(), trace.segments.end(),
                     [](const TraceSegment& segment) { return segment.is_expandable; }) ||
         std::any_of(trace.events.begin(), trace.events.end(), [](const AllocationEvent& event) {
           return event.action == AllocationAction::kSegmentMap ||
                  event.action == AllocationAction::kSegmentUnmap;
         });
}

size_t count_streams(const AllocationTrace& trace) {
  std::set<uint64_t> streams;
  for (const AllocationEvent& event : trace.events) streams.insert(event.stream);
  for (const TraceSegment& segment : trace.segments) streams.insert(segment.stream);
  return streams.size();
}

}  // namespace

Result<ReplayResult> replay(const AllocationTrace& trace, const AllocatorSettings& settings,
                            ReplayObserver* observer) {
  if (has_expandable_segments(trace)) {
    return fail({.message = "the trace has expandable segments, which can't be replayed yet",
                 .expected = "a trace recorded without expandable_segments:True"});
  }
  if (const size_t streams = count_streams(trace); streams > kMostStreams) {
    return fail({.message = fmt::format("the trace has {} streams", streams),
                 .expected = fmt::format("at most {}", kMostStreams)});
  }
  return Replay(trace, settings, observer).run();
}

}  // namespace plimsoll
