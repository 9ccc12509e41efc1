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
  pools_[0].is_small = true;
}

Allocation CachingHeap::alloc(Bytes size, HeapStream stream) {
  assert(size.value >= 0 && "a size is never negative");
  if (size.value == 0) return kEmptyBlock;
  if (!events_.empty()) process_events();
  const Request request = make_request(static_cast<uint64_t>(size.value), stream);
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
  block.is_allocated = false;
  ++num_frees_;
  allocated_.remove(block.size);
  record(AllocationAction::kFreeRequested, block.address, block.requested, block.stream);
  if (block.is_used_elsewhere) {
    defer_free(id.index);
  } else {
    free_block(id.index);
  }
}

void CachingHeap::record_stream(BlockId id, HeapStream stream) {
  if (id == kEmptyBlock) return;
  Block& block = blocks_[id.index];
  assert(block.is_allocated && "the block is not live");
  if (stream == block.stream) return;
  block.is_used_elsewhere = true;
  events_.add_use(id.index, stream);
}

CachingHeap::Request CachingHeap::make_request(uint64_t size, HeapStream stream) const {
  if (size > kLargestRequest) return {.requested = size, .size = size, .segment = size, .stream = stream};
  const uint64_t rounded = rounds_plainly_ ? round_to_block(size) : settings_.round(size);
  return {.requested = size,
          .size = rounded,
          .segment = segment_size_for(rounded, static_cast<uint64_t>(settings_.large_segment_size.value)),
          .stream = stream,
          .is_small = rounded <= kSmallLimit};
}

FreeIndex& CachingHeap::add_index(Pool& pool, HeapStream stream) {
  if (stream >= pool.by_stream.size()) pool.by_stream.resize(stream + size_t{1});
  pool.by_stream[stream] = std::make_unique<FreeIndex>();
  return *pool.by_stream[stream];
}

uint32_t CachingHeap::take_free_block(const Request& request) {
  Pool& pool = pools_[request.is_small ? 0 : 1];
  if (counts_age_) ++pool.searches;
  FreeIndex& index = index_of(pool, request.stream);
  FreeIndex::Position at = index.first_at_least(request.size);
  if (at == FreeIndex::end()) return kNoBlock;
  if (settings_.expandable_segments) at = best_expandable(index, at);
  const FreeIndex::Entry entry = index.at(at);
  if (is_too_large_to_share(request, entry.size)) return kNoBlock;
  index.erase(at);
  return entry.block;
}

// Oversize blocks are not split, so they go only to requests of about their size.
bool CachingHeap::is_too_large_to_share(const Request& request, uint64_t block_size) const {
  if (request.size < max_split_) return block_size >= max_split_;
  return block_size >= request.size + static_cast<uint64_t>(settings_.max_non_split_rounding.value);
}

bool CachingHeap::should_split(const Block& block, const Request& request) const {
  const uint64_t rest = block.size - request.size;
  if (block.is_small || settings_.expandable_segments) return rest >= kMinBlock;
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
  record(AllocationAction::kAlloc, block.address, block.requested, block.stream);
  return BlockId{index};
}

void CachingHeap::count_handed_out(const Block& block, bool was_split, bool is_split_now) {
  if (!block.is_expandable) {
    if (was_split) {
      inactive_split_.remove(block.size);  // free part of a segment taken, or shrunk by what is taken
    } else if (is_split_now) {
      inactive_split_.add(blocks_[block.next].size);
    }
  }
  ++num_allocs_;
  allocated_.add(block.size);
  active_.add(block.size);
  requested_.add(block.requested);
}

void CachingHeap::insert_free(uint32_t index) {
  Block& block = blocks_[index];
  Pool& pool = pool_of(block);
  block.searches_at_insert = pool.searches;
  index_of(pool, block.stream).insert({.size = block.size, .address = block.address, .block = index});
}

void CachingHeap::erase_free(uint32_t index) {
  const Block& block = blocks_[index];
  index_of(block).erase(block.size, block.address);
}

void CachingHeap::free_block(uint32_t index) {
  Block& block = blocks_[index];  // merging creates no block, so the reference holds
  const uint64_t size = block.size;
  record(AllocationAction::kFreeCompleted, block.address, block.requested, block.stream);
  block.stack = kNoStack;
  const uint64_t merged = merge_with(index, block.previous) + merge_with(index, block.next);
  insert_free(index);
  if (!block.is_expandable) {
    if (block.is_split()) {
      inactive_split_.add(block.size - merged);
    } else {
      inactive_split_.remove(merged);
    }
  }
  active_.remove(size);
  requested_.remove(block.requested);
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
    std::erase(unmapped_, neighbour);
  }
  blocks_.absorb(index, neighbour);
  return size;
}

void CachingHeap::defer_free(uint32_t index) {
  Block& block = blocks_[index];
  for (const HeapStream stream : events_.take_uses(index)) {
    ++block.pending_events;
    events_.push(stream, clock_ ? clock_->busy_until(stream) : Nanoseconds{0}, index);
  }
  block.is_used_elsewhere = false;
}

void CachingHeap::process_events() {
  events_.drain(clock_ ? clock_->now() : Nanoseconds{0}, [this](uint32_t block) { event_passed(block); });
}

void CachingHeap::synchronize_events() {
  events_.drain_all([this](uint32_t block) { event_passed(block); });
}

void CachingHeap::event_passed(uint32_t index) {
  if (--blocks_[index].pending_events == 0) free_block(index);
}

void CachingHeap::finish() { synchronize_events(); }

}  // namespace plimsoll
