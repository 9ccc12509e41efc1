#include "allocator/replay_script.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/rounding.h"
#include "base/large_pages.h"
#include "trace/address_map.h"

namespace plimsoll {
namespace {

using Kind = ReplayOp::Kind;

constexpr size_t kMostStreams = 1000;  // PyTorch has 32 in a pool; more is no real trace
constexpr size_t kMostPools = 10000;
constexpr size_t kMostPlaces = 1000;
constexpr size_t kMostEvents = std::numeric_limits<uint32_t>::max() - 1;

BlockRules rules_of(const AllocatorSettings& settings) {
  return {.round =
              [settings](Bytes request) {
                const bool is_sane =
                    request.value > 0 && static_cast<uint64_t>(request.value) <= kLargestRequest;
                if (!is_sane) return round_to_block(request);
                return Bytes{static_cast<int64_t>(settings.round(static_cast<uint64_t>(request.value)))};
              },
          .max_split_size = settings.max_split_size,
          .large_page = settings.large_segment_size};
}

class Compiler {
 public:
  Compiler(const AllocationTrace& trace, const AllocatorSettings& settings)
      : trace_(trace), settings_(settings) {}

  Result<ReplayScript> run() {
    script_.at_start = state_at_start(trace_, rules_of(settings_));
    script_.events = trace_.events.size();
    find_streams();
    if (Result<void> sane = check_limits(); !sane) return tl::unexpected(sane.error());
    find_pools();
    add_start_blocks();
    script_.ops.reserve(trace_.events.size() * 2 / 3 + 16);
    prefer_large_pages(script_.ops.data(), script_.ops.capacity() * sizeof(ReplayOp));
    for (size_t at = 0; at < trace_.events.size();) at += add(at);
    if (script_.places.size() > kMostPlaces)
      return fail({.message = "the trace has too many pairs of stream and memory pool",
                   .expected = fmt::format("at most {}", kMostPlaces)});
    return std::move(script_);
  }

 private:
  Result<void> check_limits() const {
    if (script_.streams.size() > kMostStreams)
      return fail({.message = fmt::format("the trace has {} streams", script_.streams.size()),
                   .expected = fmt::format("at most {}", kMostStreams)});
    if (trace_.pools.size() > kMostPools)
      return fail({.message = fmt::format("the trace has {} memory pools", trace_.pools.size()),
                   .expected = fmt::format("at most {}", kMostPools)});
    if (trace_.events.size() > kMostEvents)
      return fail({.message = fmt::format("the trace has {} events", trace_.events.size()),
                   .expected = fmt::format("at most {}", kMostEvents)});
    return {};
  }

  // Numbered in the order of their handles, which is the order of PyTorch's free blocks.
  void find_streams() {
    std::vector<uint64_t>& streams = script_.streams;
    const auto add = [&](uint64_t stream) {
      if (!streams.empty() && streams.back() == stream) return;  // nearly always
      if (streams.size() <= kMostStreams && std::ranges::find(streams, stream) == streams.end())
        streams.push_back(stream);
    };
    for (const AllocationEvent& event : trace_.events) add(event.stream);
    for (const TraceSegment& segment : trace_.segments) add(segment.stream);
    for (const TraceSegment& segment : script_.at_start.segments) add(segment.stream);
    std::ranges::sort(streams);
  }

  // What the trace shows of the private pools' options.
  void find_pools() {
    script_.pools.resize(std::max<size_t>(trace_.pools.size(), 1));
    for (const TraceSegment& segment : trace_.segments) find_options(segment);
    if (!settings_.expandable_segments) return;
    for (const TraceSegment& segment : script_.at_start.segments)
      if (!segment.is_expandable) note_own_allocator(segment.pool);
    for (const AllocationEvent& event : trace_.events)
      if (event.action == AllocationAction::kSegmentAlloc) note_own_allocator(event.pool);
  }

  // A block that was left whole although cutting it would have paid is of a MemPool with no_split.
  void find_options(const TraceSegment& segment) {
    if (segment.pool == 0 || segment.pool >= script_.pools.size() || segment.blocks.size() != 1) return;
    const TraceBlock& block = segment.blocks.front();
    const bool is_sane = block.requested.value > 0 && block.requested <= block.bytes;
    if (block.state == BlockState::kFree || !is_sane) return;
    const uint64_t size = settings_.round(static_cast<uint64_t>(block.requested.value));
    const uint64_t rest = static_cast<uint64_t>(block.bytes.value) - size;
    const bool is_oversize =
        settings_.max_split_size && size >= static_cast<uint64_t>(settings_.max_split_size->value);
    const bool pays =
        segment.is_large && !segment.is_expandable ? rest > kSmallLimit && !is_oversize : rest >= kMinBlock;
    if (pays) script_.pools[segment.pool].never_splits = true;
  }

  // Only a pool with an allocator of its own gets whole segments while segments are expandable.
  void note_own_allocator(PoolIndex pool) {
    if (pool > 0 && pool < script_.pools.size()) script_.pools[pool].has_own_allocator = true;
  }

  void add_start_blocks() {
    for (const TraceSegment& segment : script_.at_start.segments) {
      std::vector<uint32_t>& slots = script_.start_slots.emplace_back();
      for (const TraceBlock& block : segment.blocks) {
        if (block.state == BlockState::kFree) continue;
        const uint32_t slot = new_slot();
        slots.push_back(slot);
        live_[block.address] = {.slot = slot, .is_waiting = block.state == BlockState::kPendingFree};
      }
    }
  }

  // Returns the number of events that the op is.
  size_t add(size_t at) {
    const AllocationEvent& event = trace_.events[at];
    switch (event.action) {
      case AllocationAction::kAlloc:
        add_alloc(at);
        return 1;
      case AllocationAction::kFreeRequested:
        return add_free(at);
      case AllocationAction::kFreeCompleted:
        end_free(at);
        return 1;
      case AllocationAction::kSegmentAlloc:
        push(Kind::kSegmentAlloc, at, kNoOp);
        return 1;
      case AllocationAction::kSegmentMap:
        push(Kind::kSegmentMap, at, kNoOp);
        return 1;
      case AllocationAction::kSegmentFree:
        push(Kind::kSegmentFree, at, kNoOp);
        return 1;
      case AllocationAction::kSegmentUnmap:
        push(Kind::kSegmentUnmap, at, kNoOp);
        return 1;
      case AllocationAction::kOutOfMemory:
        push(Kind::kOutOfMemory, at, kNoOp);
        return 1;
      case AllocationAction::kSnapshot:
      case AllocationAction::kUserDefined:
        return 1;
    }
    return 1;
  }

  void add_alloc(size_t at) {
    const AllocationEvent& event = trace_.events[at];
    if (event.bytes.value <= 0) return;
    Live& live = live_[event.address];  // if it is known already, the trace has lost its free
    live = {.slot = new_slot()};
    push(Kind::kAlloc, at, live.slot);
  }

  size_t add_free(size_t at) {
    const uint64_t address = trace_.events[at].address;
    Live* live = live_.find(address);
    if (live == nullptr || live->is_waiting) {
      ++script_.unknown_frees;
      return 1;
    }
    const bool is_completed = at + 1 < trace_.events.size() && trace_.events[at + 1].address == address &&
                              trace_.events[at + 1].action == AllocationAction::kFreeCompleted;
    push(is_completed ? Kind::kFree : Kind::kBeginFree, at, live->slot);
    if (!is_completed) {
      live->is_waiting = true;
      return 1;
    }
    give_up(address, live->slot);
    return 2;
  }

  void end_free(size_t at) {
    const uint64_t address = trace_.events[at].address;
    const Live* live = live_.find(address);
    if (live == nullptr || !live->is_waiting) return;
    push(Kind::kEndFree, at, live->slot);
    give_up(address, live->slot);
  }

  void give_up(uint64_t address, uint32_t slot) {
    unused_slots_.push_back(slot);
    live_.erase(address);
  }
  uint32_t new_slot() {
    if (unused_slots_.empty()) return script_.slots++;
    const uint32_t slot = unused_slots_.back();
    unused_slots_.pop_back();
    return slot;
  }

  void push(Kind kind, size_t at, uint32_t slot) {
    const AllocationEvent& event = trace_.events[at];
    script_.ops.push_back({.kind = kind,
                           .place = place_of(event),
                           .slot = slot,
                           .event = static_cast<uint32_t>(at),
                           .bytes = static_cast<uint64_t>(std::max<int64_t>(event.bytes.value, 0)),
                           .address = event.address});
    if (kind == Kind::kSegmentMap || kind == Kind::kSegmentUnmap) script_.has_pages = true;
    name_asker(kind);
  }

  uint16_t place_of(const AllocationEvent& event) {
    if (event.stream == last_stream_ && event.pool == last_pool_ && !script_.places.empty())
      return last_place_;
    const PoolIndex pool = event.pool < script_.pools.size() ? event.pool : PoolIndex{0};
    const ReplayPlace place{.stream = script_.stream_of(event.stream), .pool = pool};
    auto known = std::ranges::find(script_.places, place);
    if (known == script_.places.end()) {
      if (script_.places.size() > kMostPlaces) return 0;
      script_.places.push_back(place);
      known = std::prev(script_.places.end());
    }
    last_stream_ = event.stream;
    last_pool_ = event.pool;
    last_place_ = static_cast<uint16_t>(known - script_.places.begin());
    return last_place_;
  }

  // New memory is for the allocation that follows, or for the one that fails.
  void name_asker(Kind kind) {
    const auto at = static_cast<uint32_t>(script_.ops.size() - 1);
    if (kind == Kind::kSegmentAlloc || kind == Kind::kSegmentMap) without_asker_.push_back(at);
    if (kind != Kind::kAlloc && kind != Kind::kOutOfMemory) return;
    for (uint32_t memory : without_asker_) script_.ops[memory].slot = at;
    without_asker_.clear();
  }

  struct Live {
    uint32_t slot = 0;
    bool is_waiting = false;  // for other streams
  };

  const AllocationTrace& trace_;
  const AllocatorSettings& settings_;
  ReplayScript script_;
  AddressMap<Live> live_;
  std::vector<uint32_t> unused_slots_;
  std::vector<uint32_t> without_asker_;  // ops that get memory, of the allocation that comes next
  uint64_t last_stream_ = 0;
  PoolIndex last_pool_ = 0;
  uint16_t last_place_ = 0;
};

}  // namespace

Result<ReplayScript> ReplayScript::compile(const AllocationTrace& trace, const AllocatorSettings& settings,
                                           const std::string& file) {
  Result<ReplayScript> script = Compiler(trace, settings).run();
  if (!script) script.error().position.file = file;
  return script;
}

HeapStream ReplayScript::stream_of(uint64_t recorded) const {
  return static_cast<HeapStream>(std::ranges::lower_bound(streams, recorded) - streams.begin());
}

}  // namespace plimsoll
