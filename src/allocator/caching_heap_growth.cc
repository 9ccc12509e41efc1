// The rare path of CachingHeap: no cached block serves a request.
#include <algorithm>
#include <cassert>

#include "allocator/caching_heap.h"

namespace plimsoll {

uint32_t CachingHeap::grow(const Request& request) {
  if (counts_age_) collect_garbage();
  uint32_t block = new_segment(request);
  if (block == kNoBlock && release_oversize(request)) block = new_segment(request);
  if (block == kNoBlock) {
    release_cached();
    ++num_alloc_retries_;
    block = new_segment(request);
  }
  return block;
}

uint32_t CachingHeap::new_segment(const Request& request) {
  if (is_beyond_fraction(request.segment)) return kNoBlock;
  if (settings_.expandable_segments) return grow_expandable(request);
  const std::optional<uint64_t> address = device_->allocate(request.segment);
  if (!address) return kNoBlock;
  reserved_.add(request.segment);
  ++num_segments_;
  ++num_device_alloc_;
  record(AllocationAction::kSegmentAlloc, *address, request.segment, request.stream);
  return blocks_.create({.address = *address,
                         .size = request.segment,
                         .stream = request.stream,
                         .is_small = request.is_small,
                         .segment_stack = current_stack()});
}

bool CachingHeap::is_beyond_fraction(uint64_t segment) const {
  return allowed_ && reserved_.current() + segment > *allowed_;
}

OutOfMemory CachingHeap::out_of_memory(const Request& request) {
  ++num_ooms_;
  const std::optional<Bytes> free = device_->free_bytes();
  record(AllocationAction::kOutOfMemory, static_cast<uint64_t>(free.value_or(kUnlimitedDevice).value),
         request.size, request.stream);
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
  Pool& pool = pools_[1];
  const auto age_of = [&](uint32_t block) { return pool.searches - blocks_[block].searches_at_insert; };

  std::vector<uint32_t> whole;
  int64_t total_age = 0;
  for (const auto& index : pool.by_stream) {
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

// With max_split set: gives back the smallest cached block that is large enough, or else the largest ones
// until their sum is. False if that can't be enough.
bool CachingHeap::release_oversize(const Request& request) {
  if (!settings_.max_split_size) return false;
  const uint64_t wanted = std::max(request.size, max_split_);
  FreeIndex& index = index_of(pools_[request.is_small ? 0 : 1], request.stream);
  const FreeIndex::Position enough = index.first_at_least(wanted);
  if (enough != FreeIndex::end() && !blocks_[index.at(enough).block].is_expandable) {
    release_segment(index.at(enough).block);
    return true;
  }
  const std::vector<FreeIndex::Entry> entries = index.entries();
  uint64_t released = 0;
  for (auto entry = entries.rbegin(); entry != entries.rend() && released < wanted; ++entry) {
    if (entry->size < max_split_) break;
    if (blocks_[entry->block].is_expandable) continue;
    released += entry->size;
    release_segment(entry->block);
  }
  return released >= wanted;
}

void CachingHeap::release_cached() {
  synchronize_events();
  release_whole_segments(pools_[1]);
  release_whole_segments(pools_[0]);
}

void CachingHeap::empty_cache() { release_cached(); }

void CachingHeap::release_whole_segments(Pool& pool) {
  std::vector<uint32_t> to_unmap;
  for (const auto& index : pool.by_stream) {
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
  ++num_device_free_;
  --num_segments_;
  record(AllocationAction::kSegmentFree, block.address, block.size, block.stream);
  erase_free(index);
  blocks_.destroy(index);
  reserved_.remove(block.size);
  device_->release(block.address, block.size);
}

}  // namespace plimsoll
