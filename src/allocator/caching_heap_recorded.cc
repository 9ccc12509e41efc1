// What a replay needs of CachingHeap: the state of another allocator taken over, and each of its steps made
// where the trace says that it happened.
#include <algorithm>
#include <cassert>

#include "allocator/caching_heap.h"

namespace plimsoll {

std::vector<BlockId> CachingHeap::adopt(const TraceSegment& segment, HeapStream stream) {
  assert(!segment.is_expandable && "adopt_range() takes those over");
  ensure_pool(segment.pool);
  const PoolHalf half = pool_half(segment.pool, !segment.is_large);
  reserved_.add(!segment.is_large, static_cast<uint64_t>(segment.bytes.value));
  segments_.add(!segment.is_large, 1);
  if (static_cast<uint64_t>(segment.bytes.value) >= max_split_) oversize_segments_.add(false, 1);
  std::vector<BlockId> live;
  uint32_t previous = kNoBlock;
  for (const TraceBlock& block : segment.blocks) {
    const uint32_t index = blocks_.create({.address = block.address,
                                           .size = static_cast<uint64_t>(block.bytes.value),
                                           .previous = previous,
                                           .stream = stream,
                                           .half = half});
    if (previous != kNoBlock) blocks_[previous].next = index;
    previous = index;
    if (block.state == BlockState::kFree) {
      insert_free(index);
      if (segment.blocks.size() == 1) continue;
      inactive_split_.add(!segment.is_large, blocks_[index].size);
      inactive_splits_.add(!segment.is_large, 1);
    } else {
      adopt_live(index, block, live);
    }
  }
  return live;
}

void CachingHeap::adopt_live(uint32_t index, const TraceBlock& recorded, std::vector<BlockId>& live) {
  Block& block = blocks_[index];
  block.is_allocated = true;
  block.requested = static_cast<uint64_t>(recorded.requested.value);
  count_handed_out(block, false, false);
  live.push_back(BlockId{index});
}

std::vector<BlockId> CachingHeap::adopt_range(uint64_t address, uint64_t size,
                                              const std::vector<const TraceSegment*>& segments,
                                              HeapStream stream) {
  assert(!segments.empty() && "a range without memory is none");
  ensure_pool(segments.front()->pool);
  const PoolHalf half = pool_half(segments.front()->pool, !segments.front()->is_large);
  uint32_t rest = create_range(half, stream, address, size, page_of(half));
  std::vector<BlockId> live;
  for (const TraceSegment* segment : segments) {
    reserved_.add(is_small(half), static_cast<uint64_t>(segment->bytes.value));
    for (const TraceBlock& block : segment->blocks) {
      if (block.address > blocks_[rest].address) {
        erase_unmapped(rest);
        insert_unmapped(blocks_.split_front(rest, block.address - blocks_[rest].address));
        insert_unmapped(rest);
      }
      uint32_t index = rest;
      const auto bytes = static_cast<uint64_t>(block.bytes.value);
      erase_unmapped(rest);
      if (bytes < blocks_[rest].size) {
        index = blocks_.split_front(rest, bytes);
        insert_unmapped(rest);
      }
      blocks_[index].is_mapped = true;
      if (block.state == BlockState::kFree)
        insert_free(index);
      else
        adopt_live(index, block, live);
    }
  }
  return live;
}

CachingHeap::Choice CachingHeap::alloc_if_at(PoolIndex pool, Bytes size, HeapStream stream, uint64_t address,
                                             bool has_searched) {
  assert(size.value > 0 && "an empty request has no address");
  const Request request = make_request(pool, static_cast<uint64_t>(size.value), stream);
  if (request.requested > kLargestRequest) return {};
  uint32_t block = has_searched ? kNoBlock : take_free_block(request);
  if (block == kNoBlock) block = new_segment(request);
  if (block == kNoBlock) return {};
  if (blocks_[block].address == address) return {.block = hand_out(block, request)};
  const Choice own{.own_address = blocks_[block].address, .own_bytes = blocks_[block].size};
  insert_free(block);
  return own;
}

std::optional<BlockId> CachingHeap::alloc_at(PoolIndex pool, Bytes size, HeapStream stream,
                                             uint64_t address) {
  const Request request = make_request(pool, static_cast<uint64_t>(size.value), stream);
  if (request.requested > kLargestRequest) return std::nullopt;
  const uint32_t block = free_block_around(pool, is_small(request.half), stream, address, request.size);
  if (block == kNoBlock) return std::nullopt;
  erase_free(block);
  const uint64_t front = address - blocks_[block].address;
  if (front > 0) {
    const bool was_split = blocks_[block].is_split();
    insert_free(blocks_.split_front(block, front));
    if (!blocks_[block].is_expandable) {
      const bool is_small = plimsoll::is_small(request.half);
      inactive_splits_.add(is_small, was_split ? 1 : 2);
      if (!was_split) inactive_split_.add(is_small, front + blocks_[block].size);
    }
  }
  return hand_out(block, request);
}

// kNoBlock when the bytes aren't all in one free block of the pool and stream.
uint32_t CachingHeap::free_block_around(PoolIndex pool, bool is_small, HeapStream stream, uint64_t address,
                                        uint64_t size) {
  constexpr int64_t kLong = int64_t{1} << 20;  // a trace that the heap follows needs far fewer
  const PoolHalf half = pool_half(pool, is_small);
  if (!free_by_address_ && looked_at_ > kLong) index_free_by_address();
  if (free_by_address_) {
    const auto behind = free_by_address_->upper_bound(address);
    if (behind == free_by_address_->begin()) return kNoBlock;
    const uint32_t index = std::prev(behind)->second;
    const Block& block = blocks_[index];
    const bool is_around = block.size >= size && address - block.address <= block.size - size;
    return is_around && block.half == half && block.stream == stream ? index : kNoBlock;
  }
  const FreeIndex& index = index_of(half, stream);
  for (FreeIndex::Position at = index.first_at_least(size); at != FreeIndex::end(); at = index.next(at)) {
    const FreeIndex::Entry& entry = index.at(at);
    ++looked_at_;
    if (address >= entry.address && address - entry.address <= entry.size - size) return entry.block;
  }
  return kNoBlock;
}

void CachingHeap::index_free_by_address() {
  free_by_address_.emplace();
  for (const FreeBlocks& half : free_)
    for (const std::unique_ptr<FreeIndex>& index : half.by_stream) {
      if (index == nullptr) continue;
      for (const FreeIndex::Entry& entry : index->entries())
        free_by_address_->insert_or_assign(entry.address, entry.block);
    }
}

// Of the lowest block, where ranges overlap; kNoBlock when no unmapped block holds all of it.
uint32_t CachingHeap::unmapped_block_around(PoolIndex pool, HeapStream stream, uint64_t address,
                                            uint64_t size) const {
  auto at = unmapped_.upper_bound({address, kNoBlock});
  const auto behind = at;
  if (ranges_.may_overlap())
    at = unmapped_.begin();
  else if (at != unmapped_.begin())
    --at;
  for (; at != behind; ++at) {
    const Block& block = blocks_[at->second];
    const bool is_around = block.size >= size && address - block.address <= block.size - size;
    if (is_around && block.stream == stream && pool_of(block.half) == pool) return at->second;
  }
  return kNoBlock;
}

bool CachingHeap::grow_for(PoolIndex pool, Bytes size, HeapStream stream) {
  const Request request = make_request(pool, static_cast<uint64_t>(size.value), stream);
  if (request.requested > kLargestRequest) return false;
  const uint32_t block = new_segment(request);
  if (block != kNoBlock) insert_free(block);
  return block != kNoBlock;
}

void CachingHeap::add_segment(PoolIndex pool, HeapStream stream, uint64_t address, uint64_t size) {
  ensure_pool(pool);
  insert_free(create_segment(pool_half(pool, size <= kSmallSegment), stream, address, size));
}

bool CachingHeap::map_at(PoolIndex pool, bool is_small, HeapStream stream, uint64_t address, uint64_t size) {
  ensure_pool(pool);
  uint32_t block = unmapped_block_around(pool, stream, address, size);
  if (block != kNoBlock) {
    const uint64_t front = address - blocks_[block].address;
    if (front > 0) {
      erase_unmapped(block);
      insert_unmapped(blocks_.split_front(block, front));
      insert_unmapped(block);
    }
  } else {
    if (ranges_.any_within(address, address + size)) return false;
    const PoolHalf half = pool_half(pool, is_small);
    block = create_range(half, stream, address, size, page_of(half));
  }
  return map_block(block, size);
}

bool CachingHeap::release_at(PoolIndex pool, HeapStream stream, uint64_t address, uint64_t size) {
  for (const bool is_small : {false, true}) {
    const uint32_t block = free_block_around(pool, is_small, stream, address, size);
    if (block == kNoBlock || blocks_[block].size != size || blocks_[block].is_expandable) continue;
    if (blocks_[block].is_split()) return false;
    release_segment(block);
    return true;
  }
  return false;
}

bool CachingHeap::unmap_at(PoolIndex pool, HeapStream stream, uint64_t address, uint64_t size) {
  for (const bool is_small : {false, true}) {
    const uint32_t block = free_block_around(pool, is_small, stream, address, size);
    if (block == kNoBlock || !blocks_[block].is_expandable) continue;
    unmap_block(block);
    drop_range_if_unmapped(block);
    return true;
  }
  return false;
}

HeldBlock CachingHeap::begin_free(BlockId id) {
  Block& block = blocks_[id.index];
  let_go(block);
  ++block.pending_events;
  if (unused_holds_.empty()) {
    held_.push_back(id.index);
    return {.index = static_cast<uint32_t>(held_.size() - 1)};
  }
  const HeldBlock hold{.index = unused_holds_.back()};
  unused_holds_.pop_back();
  held_[hold.index] = id.index;
  return hold;
}

void CachingHeap::end_free(HeldBlock hold) {
  const uint32_t block = held_[hold.index];
  held_[hold.index] = kNoBlock;
  unused_holds_.push_back(hold.index);
  if (block != kNoBlock) event_passed(block);  // else memory ran out meanwhile and the stream was waited for
}

uint64_t CachingHeap::free_behind(BlockId id) const {
  const uint32_t next = blocks_[id.index].next;
  return next != kNoBlock && blocks_[next].is_free() && blocks_[next].is_mapped ? blocks_[next].size : 0;
}

bool CachingHeap::extend(BlockId id, uint64_t bytes) {
  if (bytes == 0 || bytes > free_behind(id)) return false;
  const uint32_t next = blocks_[id.index].next;
  const bool is_small = plimsoll::is_small(blocks_[id.index].half);
  const bool is_expandable = blocks_[id.index].is_expandable;
  erase_free(next);
  const bool takes_all = bytes == blocks_[next].size;
  if (!takes_all) {
    const uint32_t front = blocks_.split_front(next, bytes);
    insert_free(next);
    blocks_.absorb(id.index, front);
  } else {
    blocks_.absorb(id.index, next);
  }
  if (!is_expandable) {
    inactive_split_.remove(is_small, bytes);
    if (takes_all) inactive_splits_.remove(is_small, 1);
  }
  allocated_.add(is_small, bytes);
  active_.add(is_small, bytes);
  return true;
}

}  // namespace plimsoll
