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
          .num_allocs = static_cast<int64_t>(allocations_.added()),
          .num_frees = static_cast<int64_t>(allocations_.added() - allocations_.current()),
          .num_device_alloc = num_device_alloc_,
          .num_device_free = num_device_free_,
          .num_alloc_retries = num_alloc_retries_,
          .num_ooms = num_ooms_,
          .segments = static_cast<int64_t>(segments_.current())};
}

MemoryStats CachingHeap::memory_stats() const {
  return {.allocation = allocations_.stats(),
          .segment = segments_.stats(),
          .active = actives_.stats(),
          .inactive_split = inactive_splits_.stats(),
          .allocated_bytes = allocated_.stats(),
          .reserved_bytes = reserved_.stats(),
          .active_bytes = active_.stats(),
          .inactive_split_bytes = inactive_split_.stats(),
          .requested_bytes = requested_.stats(),
          .oversize_allocations = oversize_allocations_.stats().all,
          .oversize_segments = oversize_segments_.stats().all,
          .num_alloc_retries = num_alloc_retries_,
          .num_ooms = num_ooms_,
          .num_sync_all_streams = num_sync_all_streams_,
          .num_device_alloc = num_device_alloc_,
          .num_device_free = num_device_free_,
          .max_split_size = settings_.max_split_size ? settings_.max_split_size->value : -1};
}

void CachingHeap::reset_peaks() {
  for (PoolCounter* counter :
       {&allocations_, &actives_, &inactive_splits_, &segments_, &requested_, &allocated_, &active_,
        &reserved_, &inactive_split_, &oversize_allocations_, &oversize_segments_}) {
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
                       .pool = pool_of(blocks_[head].half),
                       .is_large = !is_small(blocks_[head].half),
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

}  // namespace plimsoll
