#include "allocator/lower_bound_heap.h"

#include <cassert>

#include "allocator/rounding.h"

namespace plimsoll {

Allocation LowerBoundHeap::alloc(Bytes size, HeapStream /*stream*/) {
  assert(size.value >= 0 && "a size is never negative");
  if (size.value == 0) return kEmptyBlock;
  const uint64_t requested = static_cast<uint64_t>(size.value);
  const uint64_t rounded = round_to_block(requested);
  const uint64_t limit = static_cast<uint64_t>(capacity_.value_or(kUnlimitedDevice).value);
  if (rounded > limit || allocated_.current() > limit - rounded) {
    ++num_ooms_;
    const Bytes held = allocated_.level().current;
    return tl::unexpected(
        OutOfMemory{.requested = size,
                    .segment_wanted = Bytes{static_cast<int64_t>(rounded)},
                    .allocated = held,
                    .reserved = held,
                    .device_free = capacity_ ? std::optional<Bytes>(*capacity_ - held) : std::nullopt});
  }
  ++num_allocs_;
  requested_.add(requested);
  allocated_.add(rounded);
  if (unused_.empty()) {
    requested_of_.push_back(requested);
    return BlockId{static_cast<uint32_t>(requested_of_.size() - 1)};
  }
  const uint32_t block = unused_.back();
  unused_.pop_back();
  requested_of_[block] = requested;
  return BlockId{block};
}

void LowerBoundHeap::free(BlockId block) {
  if (block == kEmptyBlock) return;
  assert(block.index < requested_of_.size() && requested_of_[block.index] != 0 && "the block is not live");
  const uint64_t requested = requested_of_[block.index];
  requested_of_[block.index] = 0;
  unused_.push_back(block.index);
  ++num_frees_;
  requested_.remove(requested);
  allocated_.remove(round_to_block(requested));
}

HeapStats LowerBoundHeap::stats() const {
  return {.requested = requested_.level(),
          .allocated = allocated_.level(),
          .active = allocated_.level(),
          .reserved = allocated_.level(),
          .num_allocs = num_allocs_,
          .num_frees = num_frees_,
          .num_ooms = num_ooms_};
}

void LowerBoundHeap::reset_peaks() {
  requested_.reset_peak();
  allocated_.reset_peak();
}

}  // namespace plimsoll
