// What CachingHeap shows of itself: counters, blocks, the snapshot, recorded events.
#include <algorithm>
#include <cassert>

#include "allocator/caching_heap.h"

namespace plimsoll {
namespace {

Bytes bytes(uint64_t value) { return Bytes{static_cast<int64_t>(value)}; }
std::optional<StackId> stack_id(uint32_t stack) {
  return stack == kNoStack ? std::nullopt : std::optional<StackId>(stack);
}

BlockState state_of(const Block& block) {
  if (block.is_allocated) return BlockState::kAllocated;
  return block.is_free() ? BlockState::kFree : BlockState::kPendingFree;
}

}  // namespace

HeapStats CachingHeap::stats() const {
  return {.requested = requested_.level(),
          .allocated = allocated_.level(),
          .active = active_.level(),
          .reserved = reserved_.level(),
          .inactive_split = inactive_split_.level(),
          .num_allocs = num_allocs_,
          .num_frees = num_frees_,
          .num_device_alloc = num_device_alloc_,
          .num_device_free = num_device_free_,
          .num_alloc_retries = num_alloc_retries_,
          .num_ooms = num_ooms_,
          .segments = num_segments_};
}

void CachingHeap::reset_peaks() {
  for (LevelCounter* counter : {&requested_, &allocated_, &active_, &reserved_, &inactive_split_}) {
    counter->reset_peak();
  }
}

Bytes CachingHeap::block_size(BlockId block) const {
  return block == kEmptyBlock ? Bytes{0} : bytes(blocks_[block.index].size);
}

uint64_t CachingHeap::block_address(BlockId block) const {
  return block == kEmptyBlock ? 0 : blocks_[block.index].address;
}

size_t CachingHeap::num_blocks() const {
  size_t count = 0;
  for (uint32_t index = 0; index < blocks_.size(); ++index) count += blocks_[index].exists ? 1 : 0;
  return count;
}

std::vector<TraceSegment> CachingHeap::segments() const {
  std::vector<TraceSegment> all;
  for (uint32_t index = 0; index < blocks_.size(); ++index) {
    const Block& block = blocks_[index];
    if (!block.exists || !block.is_mapped) continue;
    const bool is_head = block.previous == kNoBlock || !blocks_[block.previous].is_mapped;
    if (is_head) all.push_back(segment_from(index));
  }
  std::sort(all.begin(), all.end(),
            [](const TraceSegment& a, const TraceSegment& b) { return a.address < b.address; });
  return all;
}

TraceSegment CachingHeap::segment_from(uint32_t head) const {
  TraceSegment segment{.address = blocks_[head].address,
                       .stream = blocks_[head].stream,
                       .is_large = !blocks_[head].is_small,
                       .is_expandable = blocks_[head].is_expandable,
                       .stack = stack_id(blocks_[head].segment_stack)};
  for (uint32_t at = head; at != kNoBlock && blocks_[at].is_mapped; at = blocks_[at].next) {
    const Block& block = blocks_[at];
    segment.bytes += bytes(block.size);
    segment.blocks.push_back({.address = block.address,
                              .bytes = bytes(block.size),
                              .requested = bytes(block.is_free() ? 0 : block.requested),
                              .state = state_of(block),
                              .stack = stack_id(block.stack)});
  }
  return segment;
}

std::vector<BlockId> CachingHeap::adopt(const TraceSegment& segment, HeapStream stream) {
  assert(!segment.is_expandable && "expandable segments can't be taken over");
  reserved_.add(static_cast<uint64_t>(segment.bytes.value));
  ++num_segments_;
  std::vector<BlockId> live;
  uint32_t previous = kNoBlock;
  for (const TraceBlock& block : segment.blocks) {
    const uint32_t index = blocks_.create({.address = block.address,
                                           .size = static_cast<uint64_t>(block.bytes.value),
                                           .requested = static_cast<uint64_t>(block.requested.value),
                                           .previous = previous,
                                           .stream = stream,
                                           .is_small = !segment.is_large,
                                           .is_allocated = block.state != BlockState::kFree});
    if (previous != kNoBlock) blocks_[previous].next = index;
    previous = index;
    if (block.state == BlockState::kFree) {
      insert_free(index);
      if (segment.blocks.size() > 1) inactive_split_.add(blocks_[index].size);
    } else {
      allocated_.add(blocks_[index].size);
      active_.add(blocks_[index].size);
      requested_.add(blocks_[index].requested);
      live.push_back(BlockId{index});
    }
  }
  return live;
}

}  // namespace plimsoll
