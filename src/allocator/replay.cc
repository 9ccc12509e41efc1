#include "allocator/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/recorded_device.h"
#include "allocator/recorded_ranges.h"
#include "allocator/rounding.h"

namespace plimsoll {
namespace {

using Kind = ReplayOp::Kind;

constexpr size_t kMostListed = 100;             // divergences
constexpr int64_t kMostSynchronised = 100'000;  // beyond that many surprises the settings are others

// What a replay may follow differently: the trace says when memory was short.
AllocatorSettings without_limits(AllocatorSettings settings) {
  settings.per_process_memory_fraction.reset();
  settings.garbage_collection_threshold = 0;
  return settings;
}

class Replay {
 public:
  Replay(const ReplayScript& script, const AllocatorSettings& settings, ReplayObserver* observer)
      : script_(script),
        observer_(observer),
        ranges_(find_recorded_ranges(script)),
        device_(ranges_.size_of_new),
        heap_({.settings = without_limits(settings), .device = &device_}),
        settings_(settings) {}

  ReplayResult run() {
    start();
    if (observer_) observer_->before_events(heap_);
    play_before(script_.events);
    settle_expected();
    return finish();
  }

  std::vector<TraceSegment> segments_after(std::optional<size_t> event) {
    start();
    if (event) play_before(*event + 1);
    return segments();
  }

 private:
  void start() {
    blocks_.assign(script_.slots, kEmptyBlock);
    for (size_t pool = 1; pool < script_.pools.size(); ++pool) heap_.open_pool(script_.pools[pool]);
    adopt_start();
  }

  void play_before(size_t event) {
    for (; next_ < script_.ops.size() && script_.ops[next_].event < event; ++next_) {
      if (observer_) tell_observer(script_.ops[next_].event);
      play(script_.ops[next_]);
    }
    if (observer_) tell_observer(event);
  }

  ReplayResult finish() {
    result_.same_segments = device_.matched();
    result_.unknown_frees = script_.unknown_frees;
    result_.stats = heap_.stats();
    result_.memory_stats = heap_.memory_stats();
    result_.memory_stats.num_ooms = num_ooms_;
    result_.segments_at_end = segments();
    return std::move(result_);
  }
  std::vector<TraceSegment> segments() const {
    std::vector<TraceSegment> all = heap_.segments();
    for (TraceSegment& segment : all) segment.stream = script_.streams[segment.stream];
    return all;
  }

  void tell_observer(size_t before) {
    for (; told_ < before; ++told_) observer_->after_event(told_, heap_);
  }

  void adopt_start() {
    for (const TraceSegment& segment : script_.at_start.segments)
      device_.take(segment.address, static_cast<uint64_t>(segment.bytes.value));
    for (const TraceSegment& segment : script_.at_start.segments)
      if (!segment.is_expandable)
        take_over({&segment}, heap_.adopt(segment, script_.stream_of(segment.stream)));
    for (const RecordedRange& range : ranges_.at_start) {
      const HeapStream stream = script_.stream_of(range.segments.front()->stream);
      take_over(range.segments, heap_.adopt_range(range.address, range.size, range.segments, stream));
    }
  }

  void take_over(const std::vector<const TraceSegment*>& segments, const std::vector<BlockId>& blocks) {
    auto id = blocks.begin();
    for (const TraceSegment* segment : segments) {
      auto slot =
          script_.start_slots[static_cast<size_t>(segment - script_.at_start.segments.data())].begin();
      for (const TraceBlock& block : segment->blocks) {
        if (block.state == BlockState::kFree) continue;
        note_tail(block.address, *id);
        blocks_[*slot++] = block.state == BlockState::kPendingFree ? as_block(heap_.begin_free(*id)) : *id;
        ++id;
      }
    }
  }

  void play(const ReplayOp& op) {
    switch (op.kind) {
      case Kind::kAlloc:
        return alloc(op);
      case Kind::kFree:
        forget_tail(blocks_[op.slot]);
        return heap_.free(blocks_[op.slot]);
      case Kind::kBeginFree:
        if (blocks_[op.slot] != kEmptyBlock) blocks_[op.slot] = as_block(heap_.begin_free(blocks_[op.slot]));
        return;
      case Kind::kEndFree:
        if (blocks_[op.slot] != kEmptyBlock) heap_.end_free({.index = blocks_[op.slot].index});
        return;
      case Kind::kSegmentAlloc:
      case Kind::kSegmentMap:
        ++result_.segments;
        return device_.expect(op);
      case Kind::kSegmentFree:
      case Kind::kSegmentUnmap:
        settle_expected();
        has_given_back_ = true;
        return give_back(op);
      case Kind::kOutOfMemory:
        ++num_ooms_;
        return settle_expected();
    }
  }
  // While a block waits for other streams its slot holds the hold on it.
  static BlockId as_block(HeldBlock held) { return BlockId{held.index}; }

  void alloc(const ReplayOp& op) {
    ++result_.allocations;
    const CachingHeap::Choice choice = choose(op);
    BlockId block = kEmptyBlock;
    if (choice.block) {
      ++result_.same_address;
      block = *choice.block;
      if (!device_.expected().empty()) force_expected();
    } else {
      note_divergence(op, choice);
      block = alloc_as_recorded(op);
    }
    blocks_[op.slot] = block;
    if (observer_) observer_->on_block(op.event, heap_.block_size(block));
  }

  // An allocation for which memory was given back had searched the cached blocks before that, and then takes
  // what the device gives, or what an expandable segment has. Whether it was this allocation that gave back,
  // or an empty_cache() before it, shows only in the memory it got.
  CachingHeap::Choice choose(const ReplayOp& op) {
    const ReplayPlace& place = script_.places[op.place];
    const Bytes bytes{static_cast<int64_t>(op.bytes)};
    const bool may_have_searched = std::exchange(has_given_back_, false);
    const bool has_searched = may_have_searched && !device_.expected().empty();
    CachingHeap::Choice choice = heap_.alloc_if_at(place.pool, bytes, place.stream, op.address, has_searched);
    if (choice.block || has_searched || !may_have_searched) return choice;
    const CachingHeap::Choice after_search =
        heap_.alloc_if_at(place.pool, bytes, place.stream, op.address, true);
    return after_search.block ? after_search : choice;
  }

  BlockId alloc_as_recorded(const ReplayOp& op) {
    const ReplayPlace& place = script_.places[op.place];
    const Bytes bytes{static_cast<int64_t>(op.bytes)};
    force_expected();
    if (++num_divergences_ <= kMostSynchronised) {
      if (const auto block = heap_.alloc_at(place.pool, bytes, place.stream, op.address)) return *block;
    }
    device_.set_generous(true);
    const Allocation block = heap_.alloc_in(place.pool, bytes, place.stream);
    device_.set_generous(false);
    return block.value_or(kEmptyBlock);
  }

  // ---- memory

  // The heap gets what the trace says at the request it is for, before something is given back in between.
  void settle_expected() {
    if (device_.expected().empty()) return;
    const uint32_t asker = device_.expected().front().slot;
    if (asker != kNoOp) {
      const ReplayOp& op = script_.ops[asker];
      const ReplayPlace& place = script_.places[op.place];
      heap_.grow_for(place.pool, Bytes{static_cast<int64_t>(op.bytes)}, place.stream);
    }
    force_expected();
  }

  // What the heap didn't ask for is there all the same.
  void force_expected() {
    device_.set_generous(true);
    for (const ReplayOp& op : device_.take_expected()) {
      const ReplayPlace& place = script_.places[op.place];
      const bool is_small = op.slot == kNoOp || script_.ops[op.slot].bytes <= kSmallLimit;
      if (op.kind == Kind::kSegmentAlloc)
        heap_.add_segment(place.pool, place.stream, op.address, op.bytes);
      else
        heap_.map_at(place.pool, is_small, place.stream, op.address, op.bytes);
    }
    device_.set_generous(false);
  }

  void give_back(const ReplayOp& op) {
    const ReplayPlace& place = script_.places[op.place];
    if (op.kind == Kind::kSegmentFree)
      heap_.release_at(place.pool, place.stream, op.address, op.bytes);
    else
      heap_.unmap_at(place.pool, place.stream, op.address, op.bytes);
  }

  // ---- what the trace can't show

  void note_tail(uint64_t address, BlockId block) {
    const std::vector<UnknownTail>& unknown = script_.at_start.unknown_tails;
    const auto tail = std::ranges::lower_bound(unknown, address, {}, &UnknownTail::address);
    if (tail != unknown.end() && tail->address == address) tails_.push_back({.tail = *tail, .block = block});
  }
  void forget_tail(BlockId block) {
    if (tails_.empty()) return;
    std::erase_if(tails_, [&](const LiveTail& live) { return live.block == block; });
  }

  void note_divergence(const ReplayOp& op, const CachingHeap::Choice& choice) {
    if (!choice.own_address) ++result_.extra_segments;
    Divergence divergence{
        .event = op.event, .recorded = op.address, .replayed = choice.own_address.value_or(0)};
    if (choice.own_address) divergence.reason = explain_by_tail(op, choice);
    if (divergence.reason.empty() && result_.allocations == 1 && is_first_call(op))
      divergence.reason =
          "the trace begins within this allocation: memory got or given back before isn't shown";
    if (!divergence.reason.empty()) ++result_.explained;
    if (!result_.first_divergence) result_.first_divergence = divergence;
    if (result_.divergences.size() < kMostListed) result_.divergences.push_back(std::move(divergence));
  }

  static bool is_of_malloc(const ReplayOp& op) {
    return op.kind != Kind::kAlloc && op.kind != Kind::kFree && op.kind != Kind::kBeginFree;
  }
  // Nothing but what malloc() does itself comes before.
  bool is_first_call(const ReplayOp& op) const { return std::all_of(script_.ops.data(), &op, is_of_malloc); }

  // The heap chose the free bytes behind a block with an unknown tail, and they were too few. Then the tail
  // has at least the bytes that were missing.
  std::string explain_by_tail(const ReplayOp& op, const CachingHeap::Choice& choice) {
    for (LiveTail& live : tails_) {
      const uint64_t end =
          heap_.block_address(live.block) + static_cast<uint64_t>(heap_.block_size(live.block).value);
      if (end != *choice.own_address) continue;
      const uint64_t missing = choice.own_bytes - settings_.round(op.bytes) + kMinBlock;
      if (missing > static_cast<uint64_t>(live.tail.largest_tail.value) || !heap_.extend(live.block, missing))
        continue;
      live.tail.largest_tail -= Bytes{static_cast<int64_t>(missing)};
      return fmt::format(
          "the block at {:#x} is from before the trace and larger than its request, which the trace can't "
          "show: at least {} B of it are unsplit tail",
          live.tail.address, missing);
    }
    return {};
  }

  struct LiveTail {
    UnknownTail tail;
    BlockId block;
  };

  const ReplayScript& script_;
  ReplayObserver* observer_;
  RecordedRanges ranges_;
  RecordedDevice device_;
  CachingHeap heap_;
  const AllocatorSettings& settings_;
  std::vector<BlockId> blocks_;  // by slot
  std::vector<LiveTail> tails_;
  int64_t num_divergences_ = 0, num_ooms_ = 0;
  bool has_given_back_ = false;  // since the last allocation
  size_t next_ = 0, told_ = 0;   // op, event
  ReplayResult result_;
};

}  // namespace

ReplayResult replay(const ReplayScript& script, const AllocatorSettings& settings, ReplayObserver* observer) {
  return Replay(script, settings, observer).run();
}

std::vector<TraceSegment> segments_after(const ReplayScript& script, const AllocatorSettings& settings,
                                         std::optional<size_t> event) {
  return Replay(script, settings, nullptr).segments_after(event);
}

Result<ReplayResult> replay(const AllocationTrace& trace, const AllocatorSettings& settings,
                            ReplayObserver* observer) {
  PLIMSOLL_TRY(script, ReplayScript::compile(trace, settings));
  return replay(script, settings, observer);
}

}  // namespace plimsoll
