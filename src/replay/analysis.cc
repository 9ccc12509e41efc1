#include "replay/analysis.h"

#include <algorithm>

#include "replay/recorded_settings.h"
#include "replay/what_if.h"
#include "trace/trace_state.h"

namespace plimsoll {
namespace {

constexpr size_t kCurvePoints = 512;
constexpr int64_t kMuchIdleShare = 10;  // of what was reserved
constexpr Bytes kMuchIdle = kMiB * 128;

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
      : block_bytes(trace.events.size()),
        trace_(trace),
        per_point_(std::max<size_t>(1, (trace.events.size() + kCurvePoints - 1) / kCurvePoints)) {}

  void on_block(size_t event, Bytes bytes) override { block_bytes[event] = bytes; }
  void before_events(const CachingHeap& heap) override { take(std::nullopt, heap.in_use()); }
  void after_event(size_t event, const CachingHeap& heap) override {
    const BytesInUse now = heap.in_use();
    take(event, now);
    if (trace_.events[event].action == AllocationAction::kOutOfMemory) note_failure(event, now);
    if (left_of_point_ == 0) {
      left_of_point_ = per_point_;
      curve.emplace_back();
    }
    --left_of_point_;
    CurvePoint& point = curve.back();
    point.allocated = std::max(point.allocated, now.allocated);
    point.active = std::max(point.active, now.active);
    point.reserved = std::max(point.reserved, now.reserved);
  }

  MemoryPeak allocated, active, reserved;
  Bytes idle_at_reserved_peak;
  std::vector<RecordedOutOfMemory> out_of_memory;
  std::vector<Bytes> block_bytes;  // by event
  std::vector<CurvePoint> curve;

 private:
  void take(std::optional<size_t> event, const BytesInUse& now) {
    if (now.reserved > reserved.value) idle_at_reserved_peak = now.reserved - now.allocated;
    raise(allocated, event, now.allocated);
    raise(active, event, now.active);
    raise(reserved, event, now.reserved);
  }
  void note_failure(size_t at, const BytesInUse& now) {
    const AllocationEvent& event = trace_.events[at];
    const auto device_free = static_cast<int64_t>(std::min<uint64_t>(event.address, kMaxQuantity - 1));
    out_of_memory.push_back({.event = at,
                             .requested = event.bytes,
                             .allocated = now.allocated,
                             .reserved = now.reserved,
                             .device_free = Bytes{device_free}});
  }
  static void raise(MemoryPeak& peak, std::optional<size_t> event, Bytes now) {
    if (now > peak.value) peak = {.value = now, .event = event};
  }

  const AllocationTrace& trace_;
  size_t per_point_, left_of_point_ = 0;  // events
};

// The blocks that the program holds after an event of a script; none: before the first one.
class BlocksAt {
 public:
  BlocksAt(const ReplayScript& script, std::optional<size_t> event) : script_(script) {
    owners_.assign(script.slots, kNoOp);
    freed_.assign(script.slots, kNoOp);
    for (const std::vector<uint32_t>& slots : script.start_slots)
      for (uint32_t slot : slots) owners_[slot] = kOfStart;
    size_t at = 0;
    for (; event && at < script.ops.size() && script.ops[at].event <= *event; ++at)
      note_owner(static_cast<uint32_t>(at));
    for (; at < script.ops.size(); ++at) note_free(script.ops[at]);
  }

  // Largest first; `bytes` by event of an alloc.
  std::vector<LiveBlock> list(const AllocationTrace& trace, const std::vector<Bytes>& bytes) const {
    std::vector<LiveBlock> blocks;
    add_earlier(blocks);
    for (uint32_t slot = 0; slot < script_.slots; ++slot) {
      if (owners_[slot] >= kOfStart) continue;
      const size_t event = script_.ops[owners_[slot]].event;
      blocks.push_back({.event = event,
                        .address = trace.events[event].address,
                        .bytes = bytes[event],
                        .requested = trace.events[event].bytes,
                        .stack = trace.events[event].stack,
                        .freed = freed_at(slot)});
    }
    std::ranges::sort(blocks, [](const LiveBlock& a, const LiveBlock& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.address < b.address;
    });
    return blocks;
  }

 private:
  static constexpr uint32_t kOfStart = kNoOp - 1;

  void note_owner(uint32_t at) {
    const ReplayOp& op = script_.ops[at];
    if (op.kind == ReplayOp::Kind::kAlloc)
      owners_[op.slot] = at;
    else if (is_free(op) || op.kind == ReplayOp::Kind::kEndFree)
      owners_[op.slot] = kNoOp;
  }
  void note_free(const ReplayOp& op) {
    if (is_free(op) && freed_[op.slot] == kNoOp) freed_[op.slot] = op.event;
  }
  static bool is_free(const ReplayOp& op) {
    return op.kind == ReplayOp::Kind::kFree || op.kind == ReplayOp::Kind::kBeginFree;
  }
  std::optional<size_t> freed_at(uint32_t slot) const {
    return freed_[slot] == kNoOp ? std::nullopt : std::optional<size_t>(freed_[slot]);
  }

  // One that waits for another stream is active, but no longer allocated.
  void add_earlier(std::vector<LiveBlock>& blocks) const {
    for (size_t i = 0; i < script_.at_start.segments.size(); ++i) {
      auto slot = script_.start_slots[i].begin();
      for (const TraceBlock& block : script_.at_start.segments[i].blocks) {
        if (block.state == BlockState::kFree) continue;
        if (owners_[*slot] == kOfStart && block.state == BlockState::kAllocated)
          blocks.push_back({.address = block.address,
                            .bytes = block.bytes,
                            .requested = block.requested,
                            .stack = block.stack,
                            .is_stack_of_free = block.is_stack_of_free,
                            .freed = freed_at(*slot)});
        ++slot;
      }
    }
  }

  const ReplayScript& script_;
  // By slot: the op that allocated its block, kOfStart of a block from before the trace, kNoOp without any;
  // the event after the moment that freed it first.
  std::vector<uint32_t> owners_, freed_;
};

std::vector<std::string> without_effect(const AllocatorSettings& settings, const WhatIf& played) {
  std::vector<std::string> all = settings.without_effect;
  if (settings.per_process_memory_fraction && !played.capacity)
    all.emplace_back("per_process_memory_fraction without a device's capacity (--capacity or --gpu)");
  return all;
}

Result<void> add_what_ifs(const ReplayScript& script, const AllocatorSettings& recorded,
                          const std::string& text, const AnalysisOptions& options,
                          SnapshotAnalysis& analysis) {
  const bool is_asked = !options.what_if.empty() || options.capacity;
  const bool suggests = !is_asked && analysis.events <= options.suggests_up_to && is_much_idle(analysis) &&
                        !recorded.expandable_segments;
  if (!is_asked && !suggests) return {};
  const WhatIfDevice device{.capacity = options.capacity, .total = options.device};
  analysis.what_if.push_back(play_under(script, analysis.given_back, recorded, device));
  analysis.what_if.back().is_as_recorded = true;
  analysis.what_if.back().configuration = text;
  const std::vector<std::string> suggested = {std::string(kSuggestedSettings)};
  for (const std::string& configuration : suggests ? suggested : options.what_if) {
    PLIMSOLL_TRY(settings, parse_allocator_settings(configuration, "--alloc-conf"));
    analysis.what_if.push_back(play_under(script, analysis.given_back, settings, device));
    analysis.what_if.back().configuration = configuration;
    analysis.what_if.back().is_suggested = suggests;
    analysis.what_if.back().without_effect = without_effect(settings, analysis.what_if.back());
  }
  return {};
}

// The lines that asked for what was refused.
void add_lines_of_failures(const AllocationTrace& trace, const std::vector<StackMeaning>& meanings,
                           SnapshotAnalysis& analysis) {
  const auto line_of = [&](size_t event) {
    const auto& stack = trace.events[event].stack;
    return stack ? meanings[*stack].shown_frame : std::optional<FrameId>();
  };
  for (RecordedOutOfMemory& failure : analysis.out_of_memory) failure.frame = line_of(failure.event);
  for (WhatIf& w : analysis.what_if)
    if (w.out_of_memory_at) w.out_of_memory_frame = line_of(*w.out_of_memory_at);
}

}  // namespace

bool is_much_idle(const SnapshotAnalysis& a) {
  return a.reserved.event && a.idle_at_reserved_peak >= kMuchIdle &&
         a.idle_at_reserved_peak * kMuchIdleShare >= a.reserved.value;
}

Result<SnapshotAnalysis> analyze(const AllocationTrace& trace, const AnalysisOptions& options) {
  PLIMSOLL_TRY(settings, settings_of(trace.settings, options.file));
  SnapshotAnalysis analysis;
  analysis.at_dump = at_dump(trace);
  analysis.events = trace.events.size();
  analysis.allocated_replayed_backwards = replayed_backwards(trace, analysis.at_dump.allocated);
  Watch watch(trace);
  PLIMSOLL_TRY(script, ReplayScript::compile(trace, settings, options.file));
  analysis.replay = replay(script, settings, &watch);
  analysis.allocated = watch.allocated;
  analysis.active = watch.active;
  analysis.reserved = watch.reserved;
  analysis.idle_at_reserved_peak = watch.idle_at_reserved_peak;
  analysis.out_of_memory = std::move(watch.out_of_memory);
  analysis.at_peak = BlocksAt(script, analysis.allocated.event).list(trace, watch.block_bytes);
  analysis.fragmentation = fragmentation_of(segments_after(script, settings, analysis.allocated.event));
  const std::vector<StackMeaning> meanings = meanings_of(trace.stacks);
  analysis.steps = find_step_phases(trace, meanings);
  analysis.held =
      find_held_blocks(trace, analysis.steps, meanings, watch.block_bytes, analysis.allocated.event);
  analysis.curve = std::move(watch.curve);
  analysis.given_back = find_give_backs(trace);
  analysis.replay.memory_stats.num_alloc_retries = num_retries(analysis.given_back);
  PLIMSOLL_CHECK(add_what_ifs(script, settings, trace.settings.text, options, analysis));
  add_lines_of_failures(trace, meanings, analysis);
  return analysis;
}

}  // namespace plimsoll
