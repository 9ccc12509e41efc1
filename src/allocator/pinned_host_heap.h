// PyTorch's cache of pinned host memory: each request is rounded up to a power of two, blocks are never split
// or merged, and a freed block waits in the list of its size for the next request of that size. So pinned
// memory can be almost twice what was asked for, and never shrinks.
//
// The streams that use a block are told with record_stream(), as non-blocking copies do; the block returns to
// its list when they have passed the free. The stream that alloc() is given plays no part.
//
// Invariant: requested <= active, allocated <= active <= reserved; a block's size is a power of two unless
// the request was above pinned_max_round_threshold. Source: aten/src/ATen/core/CachingHostAllocator.h. From
// memory: that a block above the threshold is taken again by any request of its class that it is large enough
// for. Does not model: pinned_reserve_segment_size_mb.
//
//   PinnedHostHeap heap({.capacity = kGiB * 512});
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "allocator/allocator_settings.h"
#include "allocator/heap.h"
#include "allocator/level_counter.h"
#include "allocator/stream_events.h"

namespace plimsoll {

struct PinnedHostOptions {
  AllocatorSettings settings;
  std::optional<Bytes> capacity;       // host memory that may be pinned; empty: no limit
  const StreamClock* clock = nullptr;  // null: streams are done with a block by the next alloc()
};

class PinnedHostHeap final : public Heap {
 public:
  explicit PinnedHostHeap(PinnedHostOptions options = {}) : options_(std::move(options)) {}

  std::string_view name() const override { return "pinned_host"; }
  Allocation alloc(Bytes size, HeapStream stream) override;
  void free(BlockId block) override;
  void record_stream(BlockId block, HeapStream stream) override;
  void finish() override;
  HeapStats stats() const override;
  void reset_peaks() override;

 private:
  struct HostBlock {
    uint64_t size = 0;
    uint64_t requested = 0;
    uint32_t pending_events = 0;
    bool is_allocated = false;
  };

  uint64_t round(uint64_t size) const;
  std::optional<uint32_t> take_cached(uint64_t size);
  std::optional<uint32_t> new_block(uint64_t size);
  OutOfMemory out_of_memory(uint64_t requested, uint64_t rounded);
  void event_passed(uint32_t block);
  void free_block(uint32_t block);

  PinnedHostOptions options_;
  std::vector<HostBlock> blocks_;
  std::vector<uint32_t> unused_;                  // numbers of blocks that were given back
  std::array<std::vector<uint32_t>, 65> cached_;  // by ceil(log2(size)); the last freed is the first taken
  StreamEvents events_;
  LevelCounter requested_, allocated_, active_, reserved_;
  int64_t num_allocs_ = 0, num_frees_ = 0, num_device_alloc_ = 0, num_device_free_ = 0, num_ooms_ = 0;
};

}  // namespace plimsoll
