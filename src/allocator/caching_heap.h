// PyTorch's caching allocator ("native" backend) for one device: 512-byte rounding, a small and a large pool,
// best fit per stream, splitting and merging, segments kept until memory runs out.
//
//   request -> round to 512 -> best fit among the stream's free blocks
//                               | none: (collect garbage) -> segment from the device
//                               |         | full: a pool that serves then; give back oversize blocks, then
//                               all again v   v       whole segments, try again; full still: out of memory
//                         split off the tail, if large enough to be of use
//
// Invariant: that of BlockTable; a block is in its pool's free index if and only if it is free and mapped;
// `allocated` and `active` count whole blocks, so that the tail of a block that wasn't split counts as in
// use; allocated <= active <= reserved, requested <= active. Source: c10/cuda/CUDACachingAllocator.cpp,
// versions of 2025 and 2026. Does not model: free-memory callbacks, reuse within a capture
// (graph_capture_record_stream_reuse), several devices.
//
//   CachingHeap heap({.settings = {.expandable_segments = true}, .device = &device, .recorder = &recorder});
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "allocator/allocator_settings.h"
#include "allocator/block_table.h"
#include "allocator/device_memory.h"
#include "allocator/expandable_ranges.h"
#include "allocator/free_index.h"
#include "allocator/heap.h"
#include "allocator/memory_stats.h"
#include "allocator/pool_counter.h"
#include "allocator/stream_events.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

struct CachingHeapOptions {
  AllocatorSettings settings;
  DeviceMemory* device = nullptr;          // null: a device of its own without limit
  const StreamClock* clock = nullptr;      // null: another stream is done with a block by the next alloc()
  AllocationRecorder* recorder = nullptr;  // null: nothing is recorded
};

// Of a pool beside the default one.
struct PrivatePoolOptions {
  bool never_splits = false;       // torch.cuda.MemPool(no_split=True)
  bool serves_when_full = false;   // use_on_oom=True: its cached blocks serve others before memory runs out
  bool has_own_allocator = false;  // a user's: no expandable segments

  friend bool operator==(const PrivatePoolOptions&, const PrivatePoolOptions&) = default;
};

// What HeapStats says of the present moment, without the cost of the rest.
struct BytesInUse {
  Bytes allocated, active, reserved;
};

// A block that was freed and waits for CachingHeap::end_free().
struct HeldBlock {
  uint32_t index = 0;
};

class CachingHeap final : public Heap {
 public:
  // What `options` points to must outlive the heap.
  explicit CachingHeap(CachingHeapOptions options = {});

  std::string_view name() const override { return "pytorch_caching"; }
  Allocation alloc(Bytes size, HeapStream stream) override {
    return alloc_in(pool_for(stream), size, stream);
  }
  Allocation alloc_in(PoolIndex pool, Bytes size, HeapStream stream);
  void free(BlockId block) override;
  void record_stream(BlockId block, HeapStream stream) override;
  void finish() override;  // all events pass; segments stay
  HeapStats stats() const override;
  void reset_peaks() override;
  MemoryStats memory_stats() const;
  BytesInUse in_use() const {
    return {.allocated = Bytes{static_cast<int64_t>(allocated_.current())},
            .active = Bytes{static_cast<int64_t>(active_.current())},
            .reserved = Bytes{static_cast<int64_t>(reserved_.current())}};
  }

  // torch.cuda.empty_cache(): gives every whole cached segment back. During a capture, and of private pools,
  // only those of pools without users.
  void empty_cache() { release_cached(); }

  // Private pools (caching_heap_pools.cc): of torch.cuda.MemPool and CUDA graphs. A pool begins with one
  // user.
  PoolIndex open_pool(PrivatePoolOptions options = {});
  void retain_pool(PoolIndex pool);
  void release_pool(PoolIndex pool);
  // Until end_pool() the pool serves the allocations, of one stream or of all; the innermost pool that takes
  // a stream does. Meanwhile no event of another stream is looked at. REQUIRES the pool isn't begun.
  void begin_pool(PoolIndex pool, std::optional<HeapStream> only = std::nullopt);
  void end_pool(PoolIndex pool);

  // For replays (caching_heap_recorded.cc), where a trace says what happened.
  // Takes over a segment with its blocks as they were at some moment of another allocator. The ids are those
  // of the blocks that aren't free, in order; one that waits for another stream is live until free() or
  // begin_free() is told. REQUIRES the blocks tile the segment, it isn't expandable, and the heap's device
  // knows nothing of it.
  std::vector<BlockId> adopt(const TraceSegment& segment, HeapStream stream);
  // The same of a range of addresses for an expandable segment: mapped are `segments`, in order of address.
  std::vector<BlockId> adopt_range(uint64_t address, uint64_t size,
                                   const std::vector<const TraceSegment*>& segments, HeapStream stream);
  struct Choice {
    std::optional<BlockId> block;         // when the heap chose the address asked for
    std::optional<uint64_t> own_address;  // what it chose otherwise; empty: it needs a segment
    uint64_t own_bytes = 0;               // size of the free block there
  };
  // alloc_in() if that gives the address; else nothing is allocated. The cached blocks are not looked at when
  // that was done before some were given back. REQUIRES size > 0.
  Choice alloc_if_at(PoolIndex pool, Bytes size, HeapStream stream, uint64_t address, bool has_searched);
  // Allocates there whatever best fit says, if it is free.
  std::optional<BlockId> alloc_at(PoolIndex pool, Bytes size, HeapStream stream, uint64_t address);
  // Gets memory for a request as alloc_in() would that found no block, but doesn't hand it out.
  bool grow_for(PoolIndex pool, Bytes size, HeapStream stream);
  // A segment, or pages of an expandable one, whatever the heap would have done. False: it contradicts what
  // is there.
  bool map_at(PoolIndex pool, bool is_small, HeapStream stream, uint64_t address, uint64_t size);
  void add_segment(PoolIndex pool, HeapStream stream, uint64_t address, uint64_t size);
  // Gives a whole cached segment back, or unmaps whole pages of a free block. False: there is none.
  bool release_at(PoolIndex pool, HeapStream stream, uint64_t address, uint64_t size);
  bool unmap_at(PoolIndex pool, HeapStream stream, uint64_t address, uint64_t size);
  // free() in two parts: the block stays active in between, as if it waited for another stream.
  HeldBlock begin_free(BlockId block);
  void end_free(HeldBlock held);
  // Moves the border between a live block and the free one behind it. False: no such free bytes.
  bool extend(BlockId block, uint64_t bytes);
  // Bytes that are free behind the block.
  uint64_t free_behind(BlockId block) const;

  // Bytes of the live block, with rounding and unsplit tail. REQUIRES block is live.
  Bytes block_size(BlockId block) const;
  uint64_t block_address(BlockId block) const;
  // Segments and blocks as a snapshot lists them: one entry for each contiguous mapped range.
  std::vector<TraceSegment> segments() const;
  size_t num_blocks() const;  // of all segments, unmapped ranges included

 private:
  struct Request {
    uint64_t requested = 0;
    uint64_t size = 0;     // rounded
    uint64_t segment = 0;  // to ask the device for
    HeapStream stream = kDefaultStream;
    PoolHalf half = 0;
    bool is_expandable = false;
  };
  struct FreeBlocks {  // of a pool's small or large half
    std::vector<std::unique_ptr<FreeIndex>> by_stream;
    int64_t searches = 0;  // counted while garbage collection is on
  };
  struct PrivatePool {
    PrivatePoolOptions options;
    int users = 1;
  };
  struct Diversion {  // a pool that was begun
    PoolIndex pool = 0;
    std::optional<HeapStream> only;
  };

  Request make_request(PoolIndex pool, uint64_t size, HeapStream stream) const;
  PoolIndex pool_for(HeapStream stream) const {
    return diversions_.empty() ? PoolIndex{0} : diverted_pool_for(stream);
  }
  PoolIndex diverted_pool_for(HeapStream stream) const;
  void ensure_pool(PoolIndex pool);
  FreeIndex& index_of(PoolHalf half, HeapStream stream) {
    std::vector<std::unique_ptr<FreeIndex>>& by_stream = free_[half].by_stream;
    const bool is_known = stream < by_stream.size() && by_stream[stream] != nullptr;
    return is_known ? *by_stream[stream] : add_index(half, stream);
  }
  FreeIndex& add_index(PoolHalf half, HeapStream stream);
  FreeIndex& index_of(const Block& block) { return index_of(block.half, block.stream); }

  // Hot path (caching_heap.cc); blocks by their slot, kNoBlock for none.
  uint32_t take_free_block(const Request& request);
  bool is_too_large_to_share(const Request& request, uint64_t block_size) const;
  bool should_split(const Block& block, const Request& request) const;
  BlockId hand_out(uint32_t block, const Request& request);
  void count_handed_out(const Block& block, bool was_split, bool is_split_now);
  void let_go(Block& block);
  void free_block(uint32_t block);
  uint64_t merge_with(uint32_t block, uint32_t neighbour);
  void insert_free(uint32_t block);
  void erase_free(uint32_t block);

  // Other streams (caching_heap_pools.cc).
  void defer_free(uint32_t block, const std::vector<HeapStream>& streams);
  void defer_those_freed_in_capture();
  void process_events();
  void synchronize_events();
  void event_passed(uint32_t block);

  // When no free block serves (caching_heap_growth.cc).
  uint32_t grow(Request& request);
  uint32_t new_segment(const Request& request);
  uint32_t create_segment(PoolHalf half, HeapStream stream, uint64_t address, uint64_t size);
  bool is_beyond_fraction(uint64_t segment) const;
  OutOfMemory out_of_memory(const Request& request);
  void collect_garbage();
  bool release_oversize(const Request& request);
  bool is_part_of_segment(uint32_t block) const;
  uint32_t take_from_pools_that_serve(Request& request);
  void release_cached();
  void release_whole_segments(PoolHalf half);
  void release_segment(uint32_t block);

  // Expandable segments (caching_heap_expandable.cc).
  FreeIndex::Position best_expandable(const FreeIndex& index, FreeIndex::Position first) const;
  FreeIndex::Position first_not_expandable(const FreeIndex& index, FreeIndex::Position first) const;
  uint64_t size_with_unmapped_tail(uint32_t block) const;
  uint32_t grow_expandable(const Request& request);
  uint32_t find_expandable(const Request& request);
  bool has_room(uint32_t block, uint64_t size) const;
  uint32_t new_expandable_range(const Request& request);
  uint32_t create_range(PoolHalf half, HeapStream stream, uint64_t address, uint64_t size, uint64_t page);
  uint64_t page_of(PoolHalf half) const;
  void insert_unmapped(uint32_t block) { unmapped_.emplace(blocks_[block].address, block); }
  void erase_unmapped(uint32_t block) { unmapped_.erase({blocks_[block].address, block}); }
  bool map_block(uint32_t block, uint64_t size);
  void unmap_block(uint32_t block);
  ExpandableRange range_of(const Block& block) const;
  void drop_range_if_unmapped(uint32_t block);

  void adopt_live(uint32_t block, const TraceBlock& recorded, std::vector<BlockId>& live);
  uint32_t free_block_around(PoolIndex pool, bool is_small, HeapStream stream, uint64_t address,
                             uint64_t size);
  void index_free_by_address();
  uint32_t unmapped_block_around(PoolIndex pool, HeapStream stream, uint64_t address, uint64_t size) const;

  void record(AllocationAction action, uint64_t address, uint64_t bytes, HeapStream stream, PoolHalf half) {
    if (recorder_ == nullptr) return;
    recorder_->record(action, address, Bytes{static_cast<int64_t>(bytes)}, stream, pool_of(half));
  }
  uint32_t current_stack() const {
    return recorder_ == nullptr ? kNoStack : recorder_->stack().value_or(kNoStack);
  }
  TraceSegment segment_from(uint32_t head) const;

  AllocatorSettings settings_;
  uint64_t max_split_ = 0;
  std::optional<uint64_t> allowed_;  // reserved bytes that the memory fraction allows
  bool counts_age_ = false;
  bool rounds_plainly_ = true;
  std::unique_ptr<DeviceMemory> own_device_;
  DeviceMemory* device_ = nullptr;
  const StreamClock* clock_ = nullptr;
  AllocationRecorder* recorder_ = nullptr;

  BlockTable blocks_;
  std::vector<FreeBlocks> free_;    // by PoolHalf
  std::vector<PrivatePool> pools_;  // by PoolIndex; the default one's entry isn't used
  std::vector<Diversion> diversions_;
  std::set<std::pair<uint64_t, uint32_t>> unmapped_;  // blocks without memory, with their addresses
  ExpandableRanges ranges_;
  // Free and mapped blocks by address, from when they have been looked for at an address for long.
  std::optional<std::map<uint64_t, uint32_t>> free_by_address_;
  int64_t looked_at_ = 0;  // blocks, for that
  StreamEvents events_;
  std::vector<uint32_t> freed_in_capture_;  // their events come when no capture is under way
  std::vector<uint32_t> held_;              // by HeldBlock: the block, kNoBlock once it is free
  std::vector<uint32_t> unused_holds_;

  PoolCounter allocations_, actives_, inactive_splits_, segments_;
  PoolCounter requested_, allocated_, active_, reserved_, inactive_split_;  // bytes
  PoolCounter oversize_allocations_, oversize_segments_;
  int64_t num_device_alloc_ = 0, num_device_free_ = 0;
  int64_t num_alloc_retries_ = 0, num_ooms_ = 0, num_sync_all_streams_ = 0;
};

}  // namespace plimsoll
