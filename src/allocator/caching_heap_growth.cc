// The rare path of CachingHeap: no cached block serves a request. Source: malloc, alloc_block,
// garbage_collect_cached_blocks, release_cached_blocks in c10/cuda/CUDACachingAllocator.cpp.
#include <algorithm>
#include <cassert>

#include "allocator/caching_heap.h"

namespace plimsoll {

// May turn to another pool, which the request then names.
uint32_t CachingHeap::grow(Request& request) {
  if (counts_age_) collect_garbage();
  uint32_t block = new_segment(request);
  if (block == kNoBlock) block = take_from_pools_that_serve(request);
  if (block == kNoBlock && release_oversize(request)) block = new_segment(request);
  if (block == kNoBlock && diversions_.empty()) {
    release_cached();
    ++num_alloc_retries_;
    block = new_segment(request);
  }
  return block;
}

uint32_t CachingHeap::new_segment(const Request& request) {
  if (is_beyond_fraction(request.segment)) return kNoBlock;
  if (request.is_expandable) return grow_expandable(request);
  const std::optional<uint64_t> address = device_->allocate(request.segment);
  return address ? create_segment(request.half, request.stream, *address, request.segment) : kNoBlock;
}

// The block isn't in the free index yet.
uint32_t CachingHeap::create_segment(PoolHalf half, HeapStream stream, uint64_t address, uint64_t size) {
  reserved_.add(is_small(half), size);
  segments_.add(is_small(half), 1);
  if (size >= max_split_) oversize_segments_.add(false, 1);
  ++num_device_alloc_;
  record(AllocationAction::kSegmentAlloc, address, size, stream, half);
  return blocks_.create(
      {.address = address, .size = size, .stream = stream, .half = half, .segment_stack = current_stack()});
}

// Cached blocks of pools with use_on_oom. Source: try_mempool_fallback.
uint32_t CachingHeap::take_from_pools_that_serve(Request& request) {
  if (pool_of(request.half) != 0) return kNoBlock;
  const auto end = static_cast<PoolIndex>(pools_.size());
  for (PoolIndex pool = 1; pool < end; ++pool) {
    if (!pools_[pool].options.serves_when_full || pools_[pool].users == 0) continue;
    Request there = request;
    there.half = pool_half(pool, is_small(request.half));
    there.is_expandable = false;
    const uint32_t block = take_free_block(there);
    if (block == kNoBlock) continue;
    request = there;
    return block;
  }
  return kNoBlock;
}

bool CachingHeap::is_beyond_fraction(uint64_t segment) const {
  return allowed_ && reserved_.current() + segment > *allowed_;
}

OutOfMemory CachingHeap::out_of_memory(const Request& request) {
  ++num_ooms_;
  const std::optional<Bytes> free = device_->free_bytes();
  record(AllocationAction::kOutOfMemory, static_cast<uint64_t>(free.value_or(kUnlimitedDevice).value),
         request.size, request.stream, request.half);
  return {.requested = Bytes{static_cast<int64_t>(request.requested)},
          .segment_wanted = Bytes{static_cast<int64_t>(request.segment)},
          .allocated = allocated_.level().current,
          .reserved = reserved_.level().current,
          .device_free = free};
}

// Gives back whole segments of the large pool that have been cached longer than the average, until what is
// reserved is back under the threshold.
void CachingHeap::collect_garbage() {
  const uint64_t threshold =
      static_cast<uint64_t>(settings_.garbage_collection_threshold * static_cast<double>(*allowed_));
  if (reserved_.current() <= threshold) return;
  const uint64_t target = reserved_.current() - threshold;
  const FreeBlocks& large = free_[pool_half(0, false)];
  const auto age_of = [&](uint32_t block) { return large.searches - blocks_[block].searches_at_insert; };

  std::vector<uint32_t> whole;
  int64_t total_age = 0;
  for (const auto& index : large.by_stream) {
    if (!index) continue;
    for (const FreeIndex::Entry& entry : index->entries()) {
      if (blocks_[entry.block].is_split() || blocks_[entry.block].is_expandable) continue;
      whole.push_back(entry.block);
      total_age += age_of(entry.block);
    }
  }
  uint64_t reclaimed = 0;
  bool has_freed = true;
  while (reclaimed < target && has_freed && !whole.empty()) {
    const double mean_age = static_cast<double>(total_age) / static_cast<double>(whole.size());
    has_freed = false;
    std::vector<uint32_t> kept;
    for (const uint32_t block : whole) {
      if (static_cast<double>(age_of(block)) < mean_age) {
        kept.push_back(block);
        continue;
      }
      has_freed = true;
      reclaimed += blocks_[block].size;
      total_age -= age_of(block);
      release_segment(block);
    }
    whole = std::move(kept);
  }
}

// With max_split set: gives back the smallest cached block that is large enough, or else the largest of the
// smaller ones until their sum is. False if that can't be enough. A part of a segment stays: PyTorch splits
// no block so large, but a recorded state that was taken over may have one. Source:
// release_available_cached_blocks.
bool CachingHeap::release_oversize(const Request& request) {
  if (!settings_.max_split_size) return false;
  const uint64_t wanted = std::max(request.size, max_split_);
  FreeIndex& index = index_of(request.half, request.stream);
  FreeIndex::Position enough = index.first_at_least(wanted);
  while (enough != FreeIndex::end() && is_part_of_segment(index.at(enough).block))
    enough = index.next(enough);
  if (enough != FreeIndex::end() && !blocks_[index.at(enough).block].is_expandable) {
    release_segment(index.at(enough).block);
    return true;
  }
  std::vector<FreeIndex::Entry> smaller = index.entries();
  std::erase_if(smaller, [&](const FreeIndex::Entry& entry) { return entry.size >= wanted; });
  uint64_t released = 0;
  for (auto entry = smaller.rbegin(); entry != smaller.rend() && released < wanted; ++entry) {
    if (entry->size < max_split_) break;
    if (blocks_[entry->block].is_expandable || is_part_of_segment(entry->block)) continue;
    released += entry->size;
    release_segment(entry->block);
  }
  return released >= wanted;
}

bool CachingHeap::is_part_of_segment(uint32_t block) const {
  return blocks_[block].is_split() && !blocks_[block].is_expandable;
}

// Private pools with users keep what they have, and all but those without keep it during a capture.
void CachingHeap::release_cached() {
  if (diversions_.empty()) {
    ++num_sync_all_streams_;
    synchronize_events();
    release_whole_segments(pool_half(0, false));
    release_whole_segments(pool_half(0, true));
  }
  const auto end = static_cast<PoolIndex>(pools_.size());
  for (PoolIndex pool = 1; pool < end; ++pool) {
    if (pools_[pool].users > 0) continue;
    release_whole_segments(pool_half(pool, true));
    release_whole_segments(pool_half(pool, false));
  }
}

void CachingHeap::release_whole_segments(PoolHalf half) {
  std::vector<uint32_t> to_unmap;
  for (const auto& index : free_[half].by_stream) {
    if (!index) continue;
    for (const FreeIndex::Entry& entry : index->entries()) {
      if (blocks_[entry.block].is_expandable) {
        to_unmap.push_back(entry.block);
      } else if (!blocks_[entry.block].is_split()) {
        release_segment(entry.block);
      }
    }
  }
  for (const uint32_t block : to_unmap) {
    unmap_block(block);
    drop_range_if_unmapped(block);
  }
}

// REQUIRES the block is free and a whole segment.
void CachingHeap::release_segment(uint32_t index) {
  const Block block = blocks_[index];
  assert(!block.is_split() && !block.is_expandable && "only a whole segment goes back");
  const bool is_small = plimsoll::is_small(block.half);
  ++num_device_free_;
  segments_.remove(is_small, 1);
  if (block.size >= max_split_) oversize_segments_.remove(false, 1);
  record(AllocationAction::kSegmentFree, block.address, block.size, block.stream, block.half);
  erase_free(index);
  blocks_.destroy(index);
  reserved_.remove(is_small, block.size);
  device_->release(block.address, block.size);
}

}  // namespace plimsoll
