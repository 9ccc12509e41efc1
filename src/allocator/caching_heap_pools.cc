// Private pools of CachingHeap, and blocks that other streams still use.
//
//   open (1 user) -> begin: allocations come from it -> end -> release (0 users): its segments may go back
//
// Source: c10/cuda/CUDACachingAllocator.cpp (createOrIncrefPool, beginAllocateToPool, endAllocateToPool,
// releasePool, get_pool; insert_events, process_events, insert_events_deferred_until_no_capture,
// remove_cudagraph_stream_uses).
#include <algorithm>
#include <cassert>
#include <ranges>

#include "allocator/caching_heap.h"

namespace plimsoll {

void CachingHeap::ensure_pool(PoolIndex pool) {
  if (pool < pools_.size()) return;
  pools_.resize(pool + size_t{1});
  free_.resize(2 * pools_.size());
}

PoolIndex CachingHeap::open_pool(PrivatePoolOptions options) {
  const auto pool = static_cast<PoolIndex>(pools_.size());
  ensure_pool(pool);
  pools_[pool].options = options;
  return pool;
}

void CachingHeap::retain_pool(PoolIndex pool) {
  assert(pool > 0 && pool < pools_.size() && pools_[pool].users > 0 && "the pool has no users");
  ++pools_[pool].users;
}

void CachingHeap::release_pool(PoolIndex pool) {
  assert(pool > 0 && pool < pools_.size() && pools_[pool].users > 0 && "the pool has no users");
  --pools_[pool].users;
}

void CachingHeap::begin_pool(PoolIndex pool, std::optional<HeapStream> only) {
  retain_pool(pool);
  assert(std::ranges::none_of(diversions_, [&](const Diversion& d) { return d.pool == pool; }) &&
         "the pool is begun already");
  diversions_.push_back({.pool = pool, .only = only});
}

void CachingHeap::end_pool(PoolIndex pool) {
  std::erase_if(diversions_, [&](const Diversion& diversion) { return diversion.pool == pool; });
  release_pool(pool);
}

PoolIndex CachingHeap::diverted_pool_for(HeapStream stream) const {
  for (const Diversion& diversion : std::views::reverse(diversions_))
    if (!diversion.only || *diversion.only == stream) return diversion.pool;
  return 0;
}

void CachingHeap::record_stream(BlockId id, HeapStream stream) {
  if (id == kEmptyBlock) return;
  Block& block = blocks_[id.index];
  assert(block.is_allocated && "the block is not live");
  if (stream == block.stream) return;
  block.is_used_elsewhere = true;
  events_.add_use(id.index, stream, !diversions_.empty());
}

// The block becomes free when the streams have passed this moment.
void CachingHeap::defer_free(uint32_t index, const std::vector<HeapStream>& streams) {
  Block& block = blocks_[index];
  for (const HeapStream stream : streams) {
    ++block.pending_events;
    events_.push(stream, clock_ ? clock_->busy_until(stream) : Nanoseconds{0}, index);
  }
  block.is_used_elsewhere = false;
  if (block.pending_events == 0) free_block(index);
}

void CachingHeap::defer_those_freed_in_capture() {
  const std::vector<uint32_t> blocks = std::move(freed_in_capture_);
  freed_in_capture_.clear();
  for (const uint32_t block : blocks) defer_free(block, events_.take_uses_before_capture(block));
}

void CachingHeap::process_events() {
  if (!diversions_.empty()) return;
  defer_those_freed_in_capture();
  events_.drain(clock_ ? clock_->now() : Nanoseconds{0}, [this](uint32_t block) { event_passed(block); });
}

void CachingHeap::synchronize_events() {
  defer_those_freed_in_capture();
  events_.drain_all([this](uint32_t block) { event_passed(block); });
  for (uint32_t& held : held_) {
    if (held == kNoBlock) continue;
    const uint32_t block = held;
    held = kNoBlock;
    event_passed(block);
  }
}

void CachingHeap::event_passed(uint32_t index) {
  if (--blocks_[index].pending_events == 0) free_block(index);
}

void CachingHeap::finish() { synchronize_events(); }

}  // namespace plimsoll
