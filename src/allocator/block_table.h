// The blocks of a caching heap: a flat array whose slots are reused, neighbours in memory linked by index.
//
//   segment   [ block 4 | block 9 (free) | block 2 ]      previous/next: 4 <-> 9 <-> 2
//
// Invariant: the blocks linked together tile one segment (of an expandable segment its whole range of
// addresses, mapped or not) in order of address; two free neighbours that are both mapped or both unmapped
// don't exist. Sizes and addresses in bytes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "allocator/heap.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

inline constexpr uint32_t kNoBlock = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kNoStack = std::numeric_limits<uint32_t>::max();

// Numbers a set of free blocks: each pool (the default one is 0) has one of small and one of large blocks.
using PoolHalf = uint16_t;
constexpr PoolHalf pool_half(PoolIndex pool, bool is_small) {
  return static_cast<PoolHalf>(2 * pool + (is_small ? 0 : 1));
}
constexpr PoolIndex pool_of(PoolHalf half) { return half / 2; }
constexpr bool is_small(PoolHalf half) { return half % 2 == 0; }

struct Block {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested = 0;  // of the present or, when freed, the last user
  uint32_t previous = kNoBlock;
  uint32_t next = kNoBlock;
  HeapStream stream = kDefaultStream;
  PoolHalf half = 0;
  bool is_allocated = false;  // the program holds it
  bool is_mapped = true;      // false: addresses of an expandable segment without memory
  bool is_expandable = false;
  bool is_used_elsewhere = false;     // record_stream() named another stream
  bool exists = false;                // false: the slot is not in use
  uint32_t pending_events = 0;        // after free(): streams that have yet to pass it
  uint32_t stack = kNoStack;          // of the allocation, when recorded
  uint32_t segment_stack = kNoStack;  // of the first block: of the segment's allocation
  int64_t searches_at_insert = 0;     // age for garbage collection

  bool is_split() const { return previous != kNoBlock || next != kNoBlock; }
  bool is_free() const { return !is_allocated && pending_events == 0 && !is_used_elsewhere; }
};

class BlockTable {
 public:
  Block& operator[](uint32_t index) { return blocks_[index]; }
  const Block& operator[](uint32_t index) const { return blocks_[index]; }
  uint32_t size() const { return static_cast<uint32_t>(blocks_.size()); }

  // Invalidates references to blocks.
  uint32_t create(const Block& block) {
    uint32_t index = size();
    if (unused_.empty()) {
      blocks_.push_back(block);
    } else {
      index = unused_.back();
      unused_.pop_back();
      blocks_[index] = block;
    }
    blocks_[index].exists = true;
    return index;
  }
  void destroy(uint32_t index) {
    blocks_[index].exists = false;
    unused_.push_back(index);
  }

  // Cuts the front off: the new block takes the first `size` bytes and stands before `index`.
  // REQUIRES 0 < size < size of the block.
  uint32_t split_front(uint32_t index, uint64_t size) {
    Block front = blocks_[index];
    front.size = size;
    front.next = index;
    const uint32_t created = create(front);
    Block& rest = blocks_[index];
    rest.address += size;
    rest.size -= size;
    rest.previous = created;
    rest.segment_stack = kNoStack;
    if (front.previous != kNoBlock) blocks_[front.previous].next = created;
    return created;
  }
  // Leaves the first `size` bytes in the block: the new block takes the rest and stands behind `index`.
  // REQUIRES 0 < size < size of the block.
  uint32_t split_back(uint32_t index, uint64_t size) {
    Block back = blocks_[index];
    back.address += size;
    back.size -= size;
    back.previous = index;
    back.segment_stack = kNoStack;
    const uint32_t created = create(back);
    Block& front = blocks_[index];
    front.size = size;
    front.next = created;
    if (back.next != kNoBlock) blocks_[back.next].previous = created;
    return created;
  }
  // Takes the neighbour's bytes; the neighbour's slot is given up. REQUIRES the two are linked.
  void absorb(uint32_t index, uint32_t neighbour) {
    Block& block = blocks_[index];
    const Block& other = blocks_[neighbour];
    if (block.previous == neighbour) {
      block.address = other.address;
      block.previous = other.previous;
      block.segment_stack = other.segment_stack;
      if (block.previous != kNoBlock) blocks_[block.previous].next = index;
    } else {
      block.next = other.next;
      if (block.next != kNoBlock) blocks_[block.next].previous = index;
    }
    block.size += other.size;
    destroy(neighbour);
  }

 private:
  std::vector<Block> blocks_;
  std::vector<uint32_t> unused_;
};

}  // namespace plimsoll
