#include "replay/analysis.h"

#include <algorithm>
#include <unordered_map>

#include "replay/recorded_settings.h"
#include "replay/what_if.h"
#include "trace/trace_state.h"

namespace plimsoll {
namespace {

constexpr size_t kCurvePoints = 512;

AtDump at_dump(const AllocationTrace& trace) {
  AtDump dump;
  for (const TraceSegment& segment : trace.segments) {
    ++dump.segments;
    dump.reserved += segment.bytes;
    for (const TraceBlock& block : segment.blocks) {
      if (block.state == BlockState::kAllocated) dump.allocated += block.bytes;
      if (block.state != BlockState::kFree) dump.active += block.bytes;
    }
  }
  return dump;
}

Bytes replayed_backwards(const AllocationTrace& trace, Bytes at_dump) {
  Bytes now = at_dump, peak = at_dump;
  for (size_t i = trace.events.size(); i-- > 0;) {
    const AllocationEvent& event = trace.events[i];
    if (event.action == AllocationAction::kAlloc) now -= event.bytes;
    if (event.action == AllocationAction::kFreeRequested) now += event.bytes;
    peak = std::max(peak, now);
  }
  return peak;
}

// Peaks, the curve, and how large each block was.
class Watch final : public ReplayObserver {
 public:
  explicit Watch(const AllocationTrace& trace)
      : per_point_(std::max<size_t>(1, (trace.events.size() + kCurvePoints - 1) / kCurvePoints)) {
    block_bytes_.resize(trace.events.size());
  }

  void on_block(std::optional<size_t> event, uint64_t address, Bytes bytes) override {
    if (event)
      block_bytes_[*event] = bytes;
    else
      earlier_[address] = bytes;
  }
  void before_events(const CachingHeap& heap) override { take(std::nullopt, heap.stats()); }
  void after_event(size_t event, const CachingHeap& heap) override {
    const HeapStats stats = heap.stats();
    take(event, stats);
    if (event % per_point_ == 0) curve_.emplace_back();
    CurvePoint& point = curve_.back();
    point.allocated = std::max(point.allocated, stats.allocated.current);
    point.active = std::max(point.active, stats.active.current);
    point.reserved = std::max(point.reserved, stats.reserved.current);
  }

  MemoryPeak allocated_, active_, reserved_;
  std::vector<Bytes> block_bytes_;  // by event
  std::unordered_map<uint64_t, Bytes> earlier_;
  std::vector<CurvePoint> curve_;

 private:
  void take(std::optional<size_t> event, const HeapStats& stats) {
    raise(allocated_, event, stats.allocated.current);
    raise(active_, event, stats.active.current);
    raise(reserved_, event, stats.reserved.current);
  }
  static void raise(MemoryPeak& peak, std::optional<size_t> event, Bytes now) {
    if (now > peak.value) peak = {.value = now, .event = event};
  }

  size_t per_point_;
};

// The segments at one moment.
class SegmentsAt final : public ReplayObserver {
 public:
  explicit SegmentsAt(std::optional<size_t> event) : event_(event) {}
  void on_block(std::optional<size_t>, uint64_t, Bytes) override {}
  void before_events(const CachingHeap& heap) override {
    if (!event_) segments_ = heap.segments();
  }
  void after_event(size_t event, const CachingHeap& heap) override {
    if (event_ == event) segments_ = heap.segments();
  }
  std::vector<TraceSegment> segments_;

 private:
  std::optional<size_t> event_;
};

std::vector<LiveBlock> blocks_at(const AllocationTrace& trace, const Watch& watch,
                                 const std::vector<TraceSegment>& at_start, std::optional<size_t> event) {
  std::unordered_map<uint64_t, LiveBlock> live;
  for (const TraceSegment& segment : at_start)
    for (const TraceBlock& block : segment.blocks)
      if (block.state != BlockState::kFree)  // one that waits counts as allocated until its free completes
        live[block.address] = {.address = block.address,
                               .bytes = block.bytes,
                               .requested = block.requested,
                               .stack = block.stack};
  for (size_t i = 0; event && i <= *event; ++i) {
    const AllocationEvent& e = trace.events[i];
    if (e.action == AllocationAction::kAlloc)
      live[e.address] = {.event = i,
                         .address = e.address,
                         .bytes = watch.block_bytes_[i],
                         .requested = e.bytes,
                         .stack = e.stack};
    if (e.action == AllocationAction::kFreeRequested || e.action == AllocationAction::kFreeCompleted)
      live.erase(e.address);
  }
  std::unordered_map<uint64_t, size_t> freed;  // first after the moment
  for (size_t i = event ? *event + 1 : 0; i < trace.events.size(); ++i)
    if (trace.events[i].action == AllocationAction::kFreeRequested)
      freed.try_emplace(trace.events[i].address, i);
  for (auto& [address, block] : live)
    if (const auto at = freed.find(address); at != freed.end()) block.freed = at->second;
  std::vector<LiveBlock> blocks;
  for (const auto& [address, block] : live) blocks.push_back(block);
  std::ranges::sort(blocks, [](const LiveBlock& a, const LiveBlock& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.address < b.address;
  });
  return blocks;
}

}  // namespace

Result<SnapshotAnalysis> analyze(const AllocationTrace& trace, const AnalysisOptions& options) {
  PLIMSOLL_TRY(settings, settings_of(trace.settings));
  SnapshotAnalysis analysis;
  analysis.at_dump = at_dump(trace);
  analysis.events = trace.events.size();
  analysis.allocated_replayed_backwards = replayed_backwards(trace, analysis.at_dump.allocated);
  Watch watch(trace);
  PLIMSOLL_TRY(script, ReplayScript::compile(trace, settings));
  analysis.replay = replay(script, settings, &watch);
  analysis.allocated = watch.allocated_;
  analysis.active = watch.active_;
  analysis.reserved = watch.reserved_;
  analysis.at_peak = blocks_at(trace, watch, script.at_start.segments, analysis.allocated.event);
  analysis.held = find_held_blocks(trace, watch.block_bytes_, analysis.allocated.event);
  analysis.curve = std::move(watch.curve_);
  SegmentsAt at_peak(analysis.allocated.event);
  replay(script, settings, &at_peak);
  analysis.fragmentation = fragmentation_of(at_peak.segments_);
  analysis.given_back = find_give_backs(trace);
  analysis.replay.memory_stats.num_alloc_retries = num_retries(analysis.given_back);
  for (const std::string& configuration : options.what_if) {
    PLIMSOLL_TRY(answer, play_under(script, analysis.given_back, configuration, options.capacity));
    analysis.what_if.push_back(std::move(answer));
  }
  return analysis;
}

}  // namespace plimsoll
