// Expandable segments of CachingHeap: one range of addresses for each stream and pool, into which pages are
// mapped as it grows.
//
//   [ live | free (mapped) | unmapped ..................... ]   the range is 1 1/8 of the device
//            grow: take the free block before the unmapped one and map only the pages that are missing
//
// Source: c10/cuda/CUDACachingAllocator.cpp (find_expandable_block, map_block, unmap_block).
#include <algorithm>
#include <cassert>

#include "allocator/caching_heap.h"

namespace plimsoll {
namespace {

constexpr uint64_t kUnlimitedRange = uint64_t{1} << 41;  // where the device's size isn't known

}  // namespace

// A block that can grow counts with the size it can grow to, so that another, larger now, may fit better.
FreeIndex::Position CachingHeap::best_expandable(const FreeIndex& index, FreeIndex::Position at) const {
  while (blocks_[index.at(at).block].is_expandable) {
    const FreeIndex::Position next = index.next(at);
    if (next == FreeIndex::end()) break;
    if (size_with_unmapped_tail(index.at(next).block) >= size_with_unmapped_tail(index.at(at).block)) break;
    at = next;
  }
  return at;
}

// Blocks of expandable segments don't serve a request that is not to have one (get_free_block).
FreeIndex::Position CachingHeap::first_not_expandable(const FreeIndex& index, FreeIndex::Position at) const {
  while (at != FreeIndex::end() && blocks_[index.at(at).block].is_expandable) at = index.next(at);
  return at;
}

uint64_t CachingHeap::size_with_unmapped_tail(uint32_t index) const {
  const Block& block = blocks_[index];
  const bool can_grow = block.next != kNoBlock && !blocks_[block.next].is_mapped;
  return block.size + (can_grow ? blocks_[block.next].size : 0);
}

uint32_t CachingHeap::grow_expandable(const Request& request) {
  uint32_t block = find_expandable(request);
  if (block == kNoBlock) return kNoBlock;
  if (!blocks_[block].is_mapped && !map_block(block, std::min(blocks_[block].size, request.size)))
    return kNoBlock;
  while (blocks_[block].size < request.size) {
    const uint32_t unmapped = blocks_[block].next;
    const uint64_t missing = request.size - blocks_[block].size;
    if (!map_block(unmapped, std::min(missing, blocks_[unmapped].size))) return kNoBlock;
    block = unmapped;  // has taken in the free block before it
  }
  erase_free(block);
  return block;
}

// The lowest address from which free and unmapped blocks of the stream give room, or a new range.
uint32_t CachingHeap::find_expandable(const Request& request) {
  for (const auto& [address, unmapped] : unmapped_) {
    const Block& block = blocks_[unmapped];
    if (block.stream != request.stream || block.half != request.half) continue;
    const bool starts_before = block.previous != kNoBlock && blocks_[block.previous].is_free();
    const uint32_t start = starts_before ? block.previous : unmapped;
    if (has_room(start, request.size)) return start;
  }
  return new_expandable_range(request);
}

bool CachingHeap::has_room(uint32_t index, uint64_t size) const {
  uint64_t room = 0;
  while (room < size && index != kNoBlock && blocks_[index].is_free()) {
    room += blocks_[index].size;
    index = blocks_[index].next;
  }
  return room >= size;
}

uint64_t CachingHeap::page_of(PoolHalf half) const {
  return is_small(half) ? kSmallSegment : static_cast<uint64_t>(settings_.large_segment_size.value);
}

uint32_t CachingHeap::new_expandable_range(const Request& request) {
  const uint64_t page = page_of(request.half);
  const std::optional<Bytes> total = device_->total_bytes();
  const uint64_t device = total ? static_cast<uint64_t>(total->value) : 0;
  const uint64_t wanted = total ? device + device / 8 : std::max(kUnlimitedRange, request.size * 2);
  const uint64_t size = (wanted + page - 1) / page * page;
  if (size < request.size) return kNoBlock;
  const std::optional<uint64_t> address = device_->reserve_addresses(size);
  return address ? create_range(request.half, request.stream, *address, size, page) : kNoBlock;
}

// All of it unmapped.
uint32_t CachingHeap::create_range(PoolHalf half, HeapStream stream, uint64_t address, uint64_t size,
                                   uint64_t page) {
  ranges_.add({.address = address, .size = size, .page = page});
  const uint32_t block = blocks_.create({.address = address,
                                         .size = size,
                                         .stream = stream,
                                         .half = half,
                                         .is_mapped = false,
                                         .is_expandable = true});
  insert_unmapped(block);
  return block;
}

// Maps the pages that hold the first `size` bytes of an unmapped block; the rest stays unmapped behind it.
bool CachingHeap::map_block(uint32_t index, uint64_t size) {
  const uint64_t page = range_of(blocks_[index]).page;
  const uint64_t mapped = (size + page - 1) / page * page;
  const uint64_t address = blocks_[index].address;
  if (!device_->map(address, mapped)) return false;
  erase_unmapped(index);
  if (mapped < blocks_[index].size) {
    insert_unmapped(blocks_.split_back(index, mapped));
  }
  blocks_[index].is_mapped = true;
  merge_with(index, blocks_[index].previous);
  merge_with(index, blocks_[index].next);
  insert_free(index);
  reserved_.add(is_small(blocks_[index].half), mapped);
  ++num_device_alloc_;
  record(AllocationAction::kSegmentMap, address, mapped, blocks_[index].stream, blocks_[index].half);
  Block& block = blocks_[index];
  if (block.previous == kNoBlock && block.segment_stack == kNoStack) block.segment_stack = current_stack();
  return true;
}

// Gives back the whole pages inside a free block; what is left of it on both sides stays mapped.
void CachingHeap::unmap_block(uint32_t index) {
  const ExpandableRange range = range_of(blocks_[index]);
  const uint64_t begin = blocks_[index].address - range.address;
  const uint64_t end = begin + blocks_[index].size;
  const uint64_t first = (begin + range.page - 1) / range.page * range.page;
  const uint64_t last = end / range.page * range.page;
  if (first >= last) return;
  erase_free(index);
  if (first > begin) insert_free(blocks_.split_front(index, first - begin));
  if (end > last) insert_free(blocks_.split_back(index, last - first));
  blocks_[index].is_mapped = false;
  const uint64_t address = blocks_[index].address;
  const uint64_t size = blocks_[index].size;
  merge_with(index, blocks_[index].previous);
  merge_with(index, blocks_[index].next);
  insert_unmapped(index);
  reserved_.remove(is_small(blocks_[index].half), size);
  ++num_device_free_;
  record(AllocationAction::kSegmentUnmap, address, size, blocks_[index].stream, blocks_[index].half);
  device_->unmap(address, size);
}

// The nearest one: of ranges taken over from a trace only the beginnings are certain. A trace that
// contradicts itself may leave none.
ExpandableRange CachingHeap::range_of(const Block& block) const {
  if (const ExpandableRange* const nearest = ranges_.holding(block.address)) return *nearest;
  return {.address = block.address, .size = block.size, .page = page_of(block.half)};
}

void CachingHeap::drop_range_if_unmapped(uint32_t index) {
  const Block& block = blocks_[index];
  if (block.is_split() || block.is_mapped) return;
  ranges_.erase(block.address);
  erase_unmapped(index);
  blocks_.destroy(index);
}

}  // namespace plimsoll
