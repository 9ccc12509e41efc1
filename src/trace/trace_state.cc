#include "trace/trace_state.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "base/block.h"
#include "trace/address_map.h"

namespace plimsoll {
namespace {

constexpr Bytes kLargestTail{int64_t{1} << 20};  // of a block in the large pool
constexpr Bytes kSmallPage{int64_t{2} << 20};    // and segment, of the small pool
constexpr Bytes kSmallLimit{int64_t{1} << 20};   // largest block of the small pool

uint64_t end_of(const TraceSegment& segment) {
  return segment.address + static_cast<uint64_t>(segment.bytes.value);
}
uint64_t end_of(const TraceBlock& block) { return block.address + static_cast<uint64_t>(block.bytes.value); }
Bytes distance(uint64_t from, uint64_t to) { return Bytes{static_cast<int64_t>(to - from)}; }

struct EarlierBlock {
  TraceBlock block;
  bool is_size_known = true;  // from the dump; else it was freed in the trace, which tells only the request
};

class Undo {
 public:
  Undo(const AllocationTrace& trace, const BlockRules& rules)
      : trace_(trace), rules_(rules), frees_have_own_stacks_(frees_have_own_stacks(trace)) {
    for (const TraceSegment& segment : trace.segments) {
      segments_[segment.address] = {.segment = segment};
      segments_[segment.address].segment.blocks.clear();
      for (const TraceBlock& block : segment.blocks)
        if (block.state != BlockState::kFree)
          live_[block.address] = {.dumped = &block, .is_held = block.state == BlockState::kAllocated};
    }
    for (const AllocationEvent& event : std::views::reverse(trace.events)) undo(event);
    live_.for_each([&](uint64_t, const Live& live) { blocks_.push_back(earlier_block(live)); });
    std::ranges::sort(blocks_, {}, [](const EarlierBlock& block) { return block.block.address; });
  }

  StateAtStart state() {
    StateAtStart state;
    find_tails(state.unknown_tails);
    for (auto& [address, found] : segments_) {
      const bool overlaps = !state.segments.empty() && address < end_of(state.segments.back());
      if (overlaps || found.segment.bytes.value <= 0) continue;
      tile(found.segment);
      state.segments.push_back(std::move(found.segment));
    }
    return state;
  }

 private:
  // A block that lives at the moment that has been reached. What it is, is told at the end, of few.
  struct Live {
    const TraceBlock* dumped = nullptr;      // where the dump has it,
    const AllocationEvent* freed = nullptr;  // or the free_completed
    bool is_held = false;                    // by the program
  };
  struct Segment {
    TraceSegment segment;
    bool is_pool_guessed = false;  // small or large: the event doesn't say
  };
  using Segments = std::map<uint64_t, Segment>;  // by address

  Bytes round(Bytes request) const { return rules_.round ? rules_.round(request) : round_to_block(request); }

  void undo(const AllocationEvent& event) {
    switch (event.action) {
      case AllocationAction::kAlloc:
        live_.erase(event.address);
        break;
      case AllocationAction::kFreeCompleted:
        tell_pool(event);
        live_[event.address] = {.freed = &event};
        break;
      case AllocationAction::kFreeRequested:
        if (Live* live = live_.find(event.address)) live->is_held = true;
        break;
      case AllocationAction::kSegmentAlloc:
        segments_.erase(event.address);
        break;
      case AllocationAction::kSegmentFree:
        segments_[event.address] = segment_of(event, event.bytes > kSmallPage, false);
        break;
      case AllocationAction::kSegmentMap:
        unmap(event);
        break;
      case AllocationAction::kSegmentUnmap:
        segments_[event.address] = segment_of(event, event.bytes.value % rules_.large_page.value == 0, true);
        segments_[event.address].is_pool_guessed = event.bytes.value % rules_.large_page.value == 0;
        num_guessed_ += segments_[event.address].is_pool_guessed ? 1 : 0;
        join_neighbours(event.address);
        break;
      case AllocationAction::kOutOfMemory:
      case AllocationAction::kSnapshot:
      case AllocationAction::kUserDefined:
        break;
    }
  }

  EarlierBlock earlier_block(const Live& live) const {
    EarlierBlock earlier{.is_size_known = live.dumped != nullptr};
    if (live.dumped)
      earlier.block = *live.dumped;
    else
      earlier.block = {.address = live.freed->address,
                       .bytes = round(live.freed->bytes),
                       .requested = live.freed->bytes,
                       .stack = live.freed->stack,
                       .is_stack_of_free = frees_have_own_stacks_ && live.freed->stack};
    earlier.block.state = live.is_held ? BlockState::kAllocated : BlockState::kPendingFree;
    return earlier;
  }

  static Segment segment_of(const AllocationEvent& event, bool is_large, bool is_expandable) {
    return {.segment = {.address = event.address,
                        .bytes = event.bytes,
                        .stream = event.stream,
                        .pool = event.pool,
                        .is_large = is_large,
                        .is_expandable = is_expandable,
                        .stack = event.stack}};
  }

  // Ten pages of the small pool are as many bytes as one of the large pool; a block in them tells which.
  void tell_pool(const AllocationEvent& event) {
    if (num_guessed_ == 0) return;
    const auto at = segments_.upper_bound(event.address);
    if (at == segments_.begin()) return;
    Segment& found = std::prev(at)->second;
    if (!found.is_pool_guessed || event.address >= end_of(found.segment)) return;
    found.segment.is_large = round(event.bytes) > kSmallLimit;
    found.is_pool_guessed = false;
    --num_guessed_;
  }

  // Takes a range out of the mapped segment that holds it.
  void unmap(const AllocationEvent& event) {
    auto at = segments_.upper_bound(event.address);
    if (at == segments_.begin()) return;
    --at;
    const Segment whole = at->second;
    const uint64_t end = event.address + static_cast<uint64_t>(event.bytes.value);
    if (end > end_of(whole.segment)) return;
    segments_.erase(at);
    if (whole.is_pool_guessed) --num_guessed_;
    add_part(whole, whole.segment.address, event.address);
    add_part(whole, end, end_of(whole.segment));
  }
  void add_part(const Segment& whole, uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    Segment& part = segments_[begin] = whole;
    part.segment.address = begin;
    part.segment.bytes = distance(begin, end);
    if (part.is_pool_guessed) ++num_guessed_;
  }

  void join_neighbours(uint64_t address) {
    auto at = segments_.find(address);
    const auto next = std::next(at);
    if (next != segments_.end() && is_continued_by(at->second, next->second)) {
      learn_pool(at->second, next->second);
      at->second.segment.bytes += next->second.segment.bytes;
      segments_.erase(next);
    }
    if (at == segments_.begin()) return;
    const auto before = std::prev(at);
    if (!is_continued_by(before->second, at->second)) return;
    learn_pool(before->second, at->second);
    before->second.segment.bytes += at->second.segment.bytes;
    segments_.erase(at);
  }
  // What is joined is of one pool; who knows it tells the other.
  void learn_pool(Segment& segment, const Segment& gone) {
    if (segment.is_pool_guessed || gone.is_pool_guessed) --num_guessed_;
    if (segment.is_pool_guessed) segment.segment.is_large = gone.segment.is_large;
    segment.is_pool_guessed = segment.is_pool_guessed && gone.is_pool_guessed;
  }
  static bool is_continued_by(const Segment& first, const Segment& second) {
    const TraceSegment& segment = first.segment;
    const TraceSegment& next = second.segment;
    const bool is_one_pool =
        first.is_pool_guessed || second.is_pool_guessed || segment.is_large == next.is_large;
    return next.is_expandable && segment.is_expandable && next.stream == segment.stream &&
           next.pool == segment.pool && is_one_pool && end_of(segment) == next.address;
  }

  // Sizes of the blocks whose requests only are known, from where the first allocation behind them lands.
  void find_tails(std::vector<UnknownTail>& unknown) {
    std::map<uint64_t, size_t> open;  // by end: index into blocks_
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (const Bytes largest = largest_unknown_tail(i); largest > Bytes{0}) {
        open[end_of(blocks_[i].block)] = i;
        unknown.push_back(
            {.address = blocks_[i].block.address, .bytes = blocks_[i].block.bytes, .largest_tail = largest});
      }
    for (const AllocationEvent& event : trace_.events) {
      if (open.empty()) break;
      if (event.action == AllocationAction::kFreeCompleted) {
        if (const auto block = find_block(event.address); block != blocks_.end())
          erase_if_same(open, static_cast<size_t>(block - blocks_.begin()));
      }
      if (event.action == AllocationAction::kAlloc) learn_tail(event.address, open);
    }
    std::erase_if(unknown, [&](const UnknownTail& tail) { return learned_.contains(tail.address); });
  }
  void erase_if_same(std::map<uint64_t, size_t>& open, size_t block) const {
    const auto at = open.find(end_of(blocks_[block].block));
    if (at != open.end() && at->second == block) open.erase(at);
  }
  void learn_tail(uint64_t address, std::map<uint64_t, size_t>& open) {
    auto at = open.upper_bound(address);
    if (at == open.begin()) return;
    --at;
    const size_t block = at->second;
    const bool others_between = block + 1 < blocks_.size() && blocks_[block + 1].block.address <= address;
    if (others_between) return;
    const Bytes tail = distance(at->first, address);
    if (tail > kLargestTail) return;
    learned_[blocks_[block].block.address] = true;
    blocks_[block].block.bytes += tail;
    open.erase(at);
  }
  std::vector<EarlierBlock>::iterator find_block(uint64_t address) {
    const auto at =
        std::ranges::lower_bound(blocks_, address, {}, [](const EarlierBlock& b) { return b.block.address; });
    return at != blocks_.end() && at->block.address == address ? at : blocks_.end();
  }

  // 0 when the block's size is known, or becomes so by looking at what lies behind it.
  Bytes largest_unknown_tail(size_t index) {
    EarlierBlock& earlier = blocks_[index];
    if (earlier.is_size_known) return Bytes{0};
    const auto at = segments_.upper_bound(earlier.block.address);
    if (at == segments_.begin()) return Bytes{0};
    const TraceSegment& segment = std::prev(at)->second.segment;
    const uint64_t end = end_of(earlier.block);
    if (!segment.is_large || segment.is_expandable || end >= end_of(segment)) return Bytes{0};
    uint64_t gap_end = end_of(segment);
    if (index + 1 < blocks_.size()) gap_end = std::min(gap_end, blocks_[index + 1].block.address);
    if (gap_end <= end) return Bytes{0};
    const Bytes gap = distance(end, gap_end);
    const bool is_whole = rules_.max_split_size && earlier.block.bytes >= *rules_.max_split_size &&
                          earlier.block.address == segment.address && gap_end == end_of(segment);
    if (!is_whole && gap > kLargestTail) return std::min(kLargestTail, gap - kLargestTail);
    earlier.block.bytes += gap;
    return Bytes{0};
  }

  // Lists the live blocks of the segment with free ones in the gaps.
  void tile(TraceSegment& segment) {
    uint64_t at = segment.address;
    const uint64_t end = end_of(segment);
    auto earlier =
        std::ranges::lower_bound(blocks_, at, {}, [](const EarlierBlock& b) { return b.block.address; });
    for (; earlier != blocks_.end() && earlier->block.address < end; ++earlier) {
      const TraceBlock& block = earlier->block;
      const bool fits =
          block.address >= at && block.bytes.value > 0 && block.bytes <= distance(block.address, end);
      if (!fits) continue;  // contradicts the blocks before it
      add_gap(segment, at, block.address);
      segment.blocks.push_back(block);
      at = end_of(block);
    }
    add_gap(segment, at, end);
  }
  static void add_gap(TraceSegment& segment, uint64_t begin, uint64_t end) {
    if (begin < end) segment.blocks.push_back({.address = begin, .bytes = distance(begin, end)});
  }

  const AllocationTrace& trace_;
  const BlockRules& rules_;
  bool frees_have_own_stacks_;
  Segments segments_;
  AddressMap<Live> live_;
  std::vector<EarlierBlock> blocks_;  // what live_ holds in the end, by address
  AddressMap<bool> learned_;          // addresses of blocks whose tail has been found
  int num_guessed_ = 0;
};

}  // namespace

bool frees_have_own_stacks(const AllocationTrace& trace) {
  AddressMap<std::optional<StackId>> of_allocs;
  bool has_pair = false;
  for (const AllocationEvent& event : trace.events) {
    if (event.action == AllocationAction::kAlloc) of_allocs[event.address] = event.stack;
    if (event.action != AllocationAction::kFreeCompleted) continue;
    const auto* const of_alloc = of_allocs.find(event.address);
    if (of_alloc == nullptr) continue;
    if (*of_alloc != event.stack) return true;
    has_pair = true;
  }
  return !has_pair;
}

StateAtStart state_at_start(const AllocationTrace& trace, const BlockRules& rules) {
  return Undo(trace, rules).state();
}

std::vector<TraceSegment> segments_at_start(const AllocationTrace& trace) {
  return state_at_start(trace).segments;
}

}  // namespace plimsoll
