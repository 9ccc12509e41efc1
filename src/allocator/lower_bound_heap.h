// The heap without fragmentation: what is live, each request rounded up to 512 bytes, is what is reserved. No
// allocator with that rounding can need less.
//
//   LowerBoundHeap heap(Bytes{80} * kGiB.value);  // or without a capacity
#pragma once

#include <optional>
#include <vector>

#include "allocator/heap.h"
#include "allocator/level_counter.h"

namespace plimsoll {

class LowerBoundHeap final : public Heap {
 public:
  explicit LowerBoundHeap(std::optional<Bytes> capacity = std::nullopt) : capacity_(capacity) {}

  std::string_view name() const override { return "lower_bound"; }
  Allocation alloc(Bytes size, HeapStream stream) override;
  void free(BlockId block) override;
  HeapStats stats() const override;
  void reset_peaks() override;

 private:
  std::optional<Bytes> capacity_;
  std::vector<uint64_t> requested_of_;  // by block; 0 when not live
  std::vector<uint32_t> unused_;        // numbers of blocks that were freed
  LevelCounter requested_, allocated_;
  int64_t num_allocs_ = 0, num_frees_ = 0, num_ooms_ = 0;
};

}  // namespace plimsoll
