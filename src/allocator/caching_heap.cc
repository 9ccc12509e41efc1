#include "allocator/caching_heap.h"

#include <algorithm>
#include <cassert>

namespace plimsoll {

CachingHeap::CachingHeap(CachingHeapOptions options)
    : settings_(std::move(options.settings)),
      max_split_(settings_.max_split_size ? static_cast<uint64_t>(settings_.max_split_size->value)
                                          : UINT64_MAX),
      device_(options.device),
      clock_(options.clock),
      recorder_(options.recorder) {
  if (device_ == nullptr) {
    own_device_ = std::make_unique<SimulatedDevice>();
    device_ = own_device_.get();
  }
  const std::optional<Bytes> total = device_->total_bytes();
  if (settings_.per_process_memory_fraction && total) {
    allowed_ =
        static_cast<uint64_t>(*settings_.per_process_memory_fraction * static_cast<double>(total->value));
  }
  counts_age_ = allowed_ && settings_.garbage_collection_threshold > 0;
  rounds_plainly_ = std::all_of(settings_.roundup_power2_divisions.begin(),
                                settings_.roundup_power2_divisions.end(), [](uint64_t n) { return n <= 1; });
  ensure_pool(0);
}

Allocation CachingHeap::alloc_in(PoolIndex pool, Bytes size, HeapStream stream) {
  assert(size.value >= 0 && "a size is never negative");
  if (size.value == 0) return kEmptyBlock;
  if (!events_.empty() || !freed_in_capture_.empty()) process_events();
  Request request = make_request(pool, static_cast<uint64_t>(size.value), stream);
  if (request.requested > kLargestRequest) return tl::unexpected(out_of_memory(request));
  uint32_t block = take_free_block(request);
  if (block == kNoBlock) block = grow(request);
  if (block == kNoBlock) return tl::unexpected(out_of_memory(request));
  return hand_out(block, request);
}

void CachingHeap::free(BlockId id) {
  if (id == kEmptyBlock) return;
  assert(id.index < blocks_.size() && blocks_[id.index].exists && blocks_[id.index].is_allocated &&
         "the block is not live");
  Block& block = blocks_[id.index];
  let_go(block);
  if (!block.is_used_elsewhere) {
    free_block(id.index);
  } else if (!diversions_.empty()) {
    freed_in_capture_.push_back(id.index);
  } else {
    defer_free(id.index, events_.take_uses(id.index));
  }
}

void CachingHeap::let_go(Block& block) {
  block.is_allocated = false;
  const bool is_small = plimsoll::is_small(block.half);
  allocations_.remove(is_small, 1);
  allocated_.remove(is_small, block.size);
  if (block.size >= max_split_) oversize_allocations_.remove(false, 1);
  record(AllocationAction::kFreeRequested, block.address, block.requested, block.stream, block.half);
}

CachingHeap::Request CachingHeap::make_request(PoolIndex pool, uint64_t size, HeapStream stream) const {
  if (size > kLargestRequest) return {.requested = size, .size = size, .segment = size, .stream = stream};
  const uint64_t rounded = rounds_plainly_ ? round_to_block(size) : settings_.round(size);
  return {.requested = size,
          .size = rounded,
          .segment = segment_size_for(rounded, static_cast<uint64_t>(settings_.large_segment_size.value)),
          .stream = stream,
          .half = pool_half(pool, rounded <= kSmallLimit),
          .is_expandable = settings_.expandable_segments && !pools_[pool].options.has_own_allocator};
}

FreeIndex& CachingHeap::add_index(PoolHalf half, HeapStream stream) {
  std::vector<std::unique_ptr<FreeIndex>>& by_stream = free_[half].by_stream;
  if (stream >= by_stream.size()) by_stream.resize(stream + size_t{1});
  by_stream[stream] = std::make_unique<FreeIndex>();
  return *by_stream[stream];
}

uint32_t CachingHeap::take_free_block(const Request& request) {
  if (counts_age_) ++free_[request.half].searches;
  FreeIndex& index = index_of(request.half, request.stream);
  FreeIndex::Position at = index.first_at_least(request.size);
  if (at == FreeIndex::end()) return kNoBlock;
  if (!ranges_.empty()) {
    at = request.is_expandable ? best_expandable(index, at) : first_not_expandable(index, at);
    if (at == FreeIndex::end()) return kNoBlock;
  }
  const FreeIndex::Entry entry = index.at(at);
  if (is_too_large_to_share(request, entry.size)) return kNoBlock;
  index.erase(at);
  if (free_by_address_) free_by_address_->erase(entry.address);
  return entry.block;
}

// Oversize blocks are not split, so they go only to requests of about their size.
bool CachingHeap::is_too_large_to_share(const Request& request, uint64_t block_size) const {
  if (request.size < max_split_) return block_size >= max_split_;
  return block_size >= request.size + static_cast<uint64_t>(settings_.max_non_split_rounding.value);
}

bool CachingHeap::should_split(const Block& block, const Request& request) const {
  const uint64_t rest = block.size - request.size;
  if (pools_[pool_of(block.half)].options.never_splits) return false;
  if (is_small(block.half) || request.is_expandable) return rest >= kMinBlock;
  return request.size < max_split_ && rest > kSmallLimit;
}

BlockId CachingHeap::hand_out(uint32_t index, const Request& request) {
  const bool was_split = blocks_[index].is_split();
  const bool splits = should_split(blocks_[index], request);
  if (splits) {
    const uint32_t rest = index;
    index = blocks_.split_front(rest, request.size);
    insert_free(rest);
  }
  Block& block = blocks_[index];
  block.is_allocated = true;
  block.requested = request.requested;
  block.stack = current_stack();
  count_handed_out(block, was_split, splits);
  record(AllocationAction::kAlloc, block.address, block.requested, block.stream, block.half);
  return BlockId{index};
}

void CachingHeap::count_handed_out(const Block& block, bool was_split, bool is_split_now) {
  const bool is_small = plimsoll::is_small(block.half);
  if (!block.is_expandable) {
    if (was_split) {
      inactive_split_.remove(is_small, block.size);  // free part of a segment taken, or shrunk by that
      if (!is_split_now) inactive_splits_.remove(is_small, 1);
    } else if (is_split_now) {
      inactive_split_.add(is_small, blocks_[block.next].size);
      inactive_splits_.add(is_small, 1);
    }
  }
  allocations_.add(is_small, 1);
  allocated_.add(is_small, block.size);
  actives_.add(is_small, 1);
  active_.add(is_small, block.size);
  requested_.add(is_small, block.requested);
  if (block.size >= max_split_) oversize_allocations_.add(false, 1);
}

void CachingHeap::insert_free(uint32_t index) {
  Block& block = blocks_[index];
  block.searches_at_insert = free_[block.half].searches;
  index_of(block).insert({.size = block.size, .address = block.address, .block = index});
  if (free_by_address_) free_by_address_->insert_or_assign(block.address, index);
}

void CachingHeap::erase_free(uint32_t index) {
  const Block& block = blocks_[index];
  index_of(block).erase(block.size, block.address);
  if (free_by_address_) free_by_address_->erase(block.address);
}

void CachingHeap::free_block(uint32_t index) {
  Block& block = blocks_[index];  // merging creates no block, so the reference holds
  const bool is_small = plimsoll::is_small(block.half);
  const uint64_t size = block.size;
  record(AllocationAction::kFreeCompleted, block.address, block.requested, block.stream, block.half);
  block.stack = kNoStack;
  const uint64_t before = merge_with(index, block.previous);
  const uint64_t behind = merge_with(index, block.next);
  insert_free(index);
  if (!block.is_expandable) {
    const int64_t is_split = block.is_split() ? 1 : 0;
    inactive_splits_.change(is_small, is_split - (before > 0 ? 1 : 0) - (behind > 0 ? 1 : 0));
    inactive_split_.change(
        is_small, is_split * static_cast<int64_t>(block.size) - static_cast<int64_t>(before + behind));
  }
  actives_.remove(is_small, 1);
  active_.remove(is_small, size);
  requested_.remove(is_small, block.requested);
}

// Takes a free neighbour in; returns its size, 0 when there is none to take.
uint64_t CachingHeap::merge_with(uint32_t index, uint32_t neighbour) {
  if (neighbour == kNoBlock) return 0;
  const Block& other = blocks_[neighbour];
  if (!other.is_free() || other.is_mapped != blocks_[index].is_mapped) return 0;
  const uint64_t size = other.size;
  if (other.is_mapped) {
    erase_free(neighbour);
  } else {
    erase_unmapped(neighbour);
  }
  blocks_.absorb(index, neighbour);
  return size;
}

}  // namespace plimsoll
