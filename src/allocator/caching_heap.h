// PyTorch's caching allocator ("native" backend) for one device: 512-byte rounding, a small and a large pool,
// best fit per stream, splitting and merging, segments kept until memory runs out.
//
//   request -> round to 512 -> best fit among the stream's free blocks
//                               | none: (collect garbage) -> segment from the device
//                               |         | full: give back oversize blocks, then all whole segments, try
//                               again v         v full again: out of memory
//                         split off the tail, if large enough to be of use
//
// Invariant: that of BlockTable; a block is in its pool's free index if and only if it is free and mapped;
// `allocated` and `active` count whole blocks, so that the tail of a block that wasn't split counts as in
// use; allocated <= active <= reserved, requested <= active. Source: c10/cuda/CUDACachingAllocator.cpp,
// versions of 2025 and 2026. Does not model: private pools (CUDA graphs, MemPool), free-memory callbacks,
// several devices.
//
//   CachingHeap heap({.settings = {.expandable_segments = true}, .device = &device, .recorder = &recorder});
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "allocator/allocator_settings.h"
#include "allocator/block_table.h"
#include "allocator/device_memory.h"
#include "allocator/free_index.h"
#include "allocator/heap.h"
#include "allocator/level_counter.h"
#include "allocator/stream_events.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

struct CachingHeapOptions {
  AllocatorSettings settings;
  DeviceMemory* device = nullptr;          // null: a device of its own without limit
  const StreamClock* clock = nullptr;      // null: another stream is done with a block by the next alloc()
  AllocationRecorder* recorder = nullptr;  // null: nothing is recorded
};

class CachingHeap final : public Heap {
 public:
  // What `options` points to must outlive the heap.
  explicit CachingHeap(CachingHeapOptions options = {});

  std::string_view name() const override { return "pytorch_caching"; }
  Allocation alloc(Bytes size, HeapStream stream) override;
  void free(BlockId block) override;
  void record_stream(BlockId block, HeapStream stream) override;
  void finish() override;  // all events pass; segments stay
  HeapStats stats() const override;
  void reset_peaks() override;

  // torch.cuda.empty_cache(): gives every whole cached segment back.
  void empty_cache();
  // Takes over a segment with its blocks as they were at some moment of another allocator; blocks that wait
  // for another stream count as allocated. The ids are those of the blocks that aren't free, in order.
  // REQUIRES the blocks tile the segment, it isn't expandable, and the heap's device knows nothing of it.
  std::vector<BlockId> adopt(const TraceSegment& segment, HeapStream stream);
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
    bool is_small = false;
  };
  struct Pool {
    bool is_small = false;
    std::vector<std::unique_ptr<FreeIndex>> by_stream;
    int64_t searches = 0;  // counted while garbage collection is on
  };
  struct ExpandableRange {  // addresses reserved for one stream and pool
    uint64_t address = 0;
    uint64_t size = 0;
    uint64_t page = 0;
  };

  Request make_request(uint64_t size, HeapStream stream) const;
  Pool& pool_of(const Block& block) { return pools_[block.is_small ? 0 : 1]; }
  FreeIndex& index_of(Pool& pool, HeapStream stream) {
    const bool is_known = stream < pool.by_stream.size() && pool.by_stream[stream] != nullptr;
    return is_known ? *pool.by_stream[stream] : add_index(pool, stream);
  }
  FreeIndex& add_index(Pool& pool, HeapStream stream);
  FreeIndex& index_of(const Block& block) { return index_of(pool_of(block), block.stream); }

  // Hot path (caching_heap.cc); blocks by their slot, kNoBlock for none.
  uint32_t take_free_block(const Request& request);
  bool is_too_large_to_share(const Request& request, uint64_t block_size) const;
  bool should_split(const Block& block, const Request& request) const;
  BlockId hand_out(uint32_t block, const Request& request);
  void count_handed_out(const Block& block, bool was_split, bool is_split_now);
  void free_block(uint32_t block);
  uint64_t merge_with(uint32_t block, uint32_t neighbour);
  void insert_free(uint32_t block);
  void erase_free(uint32_t block);
  void defer_free(uint32_t block);
  void process_events();
  void synchronize_events();
  void event_passed(uint32_t block);

  // When no free block serves (caching_heap_growth.cc).
  uint32_t grow(const Request& request);
  uint32_t new_segment(const Request& request);
  bool is_beyond_fraction(uint64_t segment) const;
  OutOfMemory out_of_memory(const Request& request);
  void collect_garbage();
  bool release_oversize(const Request& request);
  void release_cached();
  void release_whole_segments(Pool& pool);
  void release_segment(uint32_t block);

  // Expandable segments (caching_heap_expandable.cc).
  FreeIndex::Position best_expandable(const FreeIndex& index, FreeIndex::Position first) const;
  uint64_t size_with_unmapped_tail(uint32_t block) const;
  uint32_t grow_expandable(const Request& request);
  uint32_t find_expandable(const Request& request);
  bool has_room(uint32_t block, uint64_t size) const;
  uint32_t new_expandable_range(const Request& request);
  void insert_unmapped(uint32_t block);
  bool map_block(uint32_t block, uint64_t size);
  void unmap_block(uint32_t block);
  const ExpandableRange& range_of(const Block& block) const;
  void drop_range_if_unmapped(uint32_t block);

  void record(AllocationAction action, uint64_t address, uint64_t bytes, HeapStream stream) {
    if (recorder_ == nullptr) return;
    recorder_->record(action, address, Bytes{static_cast<int64_t>(bytes)}, stream);
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
  Pool pools_[2];                   // small, large
  std::vector<uint32_t> unmapped_;  // blocks without memory, by address
  std::vector<ExpandableRange> ranges_;
  StreamEvents events_;

  LevelCounter requested_, allocated_, active_, reserved_, inactive_split_;
  int64_t num_allocs_ = 0, num_frees_ = 0, num_device_alloc_ = 0, num_device_free_ = 0;
  int64_t num_alloc_retries_ = 0, num_ooms_ = 0, num_segments_ = 0;
};

}  // namespace plimsoll
