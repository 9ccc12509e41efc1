#include "allocator/pinned_host_heap.h"

#include <bit>
#include <cassert>

namespace plimsoll {
namespace {

size_t class_of(uint64_t size) { return static_cast<size_t>(std::bit_width(size - 1)); }

}  // namespace

Allocation PinnedHostHeap::alloc(Bytes size, HeapStream /*stream*/) {
  assert(size.value >= 0 && "a size is never negative");
  if (size.value == 0) return kEmptyBlock;
  if (!events_.empty()) {
    events_.drain(options_.clock ? options_.clock->now() : Nanoseconds{0},
                  [this](uint32_t block) { event_passed(block); });
  }
  const uint64_t requested = static_cast<uint64_t>(size.value);
  if (requested > kLargestRequest) return tl::unexpected(out_of_memory(requested, requested));
  const uint64_t rounded = round(requested);
  std::optional<uint32_t> block = take_cached(rounded);
  if (!block) block = new_block(rounded);
  if (!block) return tl::unexpected(out_of_memory(requested, rounded));
  HostBlock& taken = blocks_[*block];
  taken.is_allocated = true;
  taken.requested = requested;
  ++num_allocs_;
  allocated_.add(taken.size);
  active_.add(taken.size);
  requested_.add(requested);
  return BlockId{*block};
}

void PinnedHostHeap::free(BlockId id) {
  if (id == kEmptyBlock) return;
  HostBlock& block = blocks_[id.index];
  assert(block.is_allocated && "the block is not live");
  block.is_allocated = false;
  ++num_frees_;
  allocated_.remove(block.size);
  for (const HeapStream stream : events_.take_uses(id.index)) {
    ++block.pending_events;
    events_.push(stream, options_.clock ? options_.clock->busy_until(stream) : Nanoseconds{0}, id.index);
  }
  if (block.pending_events == 0) free_block(id.index);
}

void PinnedHostHeap::record_stream(BlockId block, HeapStream stream) {
  if (block == kEmptyBlock) return;
  assert(blocks_[block.index].is_allocated && "the block is not live");
  events_.add_use(block.index, stream);
}

void PinnedHostHeap::finish() {
  events_.drain_all([this](uint32_t block) { event_passed(block); });
}

uint64_t PinnedHostHeap::round(uint64_t size) const {
  const bool is_rounded = size <= static_cast<uint64_t>(options_.settings.pinned_max_round_threshold.value);
  return is_rounded ? std::bit_ceil(size) : size;
}

std::optional<uint32_t> PinnedHostHeap::take_cached(uint64_t size) {
  std::vector<uint32_t>& list = cached_[class_of(size)];
  for (auto at = list.rbegin(); at != list.rend(); ++at) {
    if (blocks_[*at].size < size) continue;
    const uint32_t block = *at;
    list.erase(std::next(at).base());
    return block;
  }
  return std::nullopt;
}

std::optional<uint32_t> PinnedHostHeap::new_block(uint64_t size) {
  const uint64_t limit = static_cast<uint64_t>(options_.capacity.value_or(kUnlimitedDevice).value);
  if (size > limit || reserved_.current() > limit - size) return std::nullopt;
  reserved_.add(size);
  ++num_device_alloc_;
  if (unused_.empty()) {
    blocks_.push_back({.size = size});
    return static_cast<uint32_t>(blocks_.size() - 1);
  }
  const uint32_t block = unused_.back();
  unused_.pop_back();
  blocks_[block] = {.size = size};
  return block;
}

OutOfMemory PinnedHostHeap::out_of_memory(uint64_t requested, uint64_t rounded) {
  ++num_ooms_;
  const Bytes held = reserved_.level().current;
  return {.requested = Bytes{static_cast<int64_t>(requested)},
          .segment_wanted = Bytes{static_cast<int64_t>(rounded)},
          .allocated = allocated_.level().current,
          .reserved = held,
          .device_free = options_.capacity ? std::optional<Bytes>(*options_.capacity - held) : std::nullopt};
}

void PinnedHostHeap::event_passed(uint32_t block) {
  if (--blocks_[block].pending_events == 0) free_block(block);
}

void PinnedHostHeap::free_block(uint32_t index) {
  const HostBlock& block = blocks_[index];
  active_.remove(block.size);
  requested_.remove(block.requested);
  if (block.size <= static_cast<uint64_t>(options_.settings.pinned_max_cached_size.value)) {
    cached_[class_of(block.size)].push_back(index);
    return;
  }
  reserved_.remove(block.size);
  ++num_device_free_;
  unused_.push_back(index);
}

HeapStats PinnedHostHeap::stats() const {
  return {.requested = requested_.level(),
          .allocated = allocated_.level(),
          .active = active_.level(),
          .reserved = reserved_.level(),
          .num_allocs = num_allocs_,
          .num_frees = num_frees_,
          .num_device_alloc = num_device_alloc_,
          .num_device_free = num_device_free_,
          .num_ooms = num_ooms_,
          .segments = num_device_alloc_ - num_device_free_};
}

void PinnedHostHeap::reset_peaks() {
  for (LevelCounter* counter : {&requested_, &allocated_, &active_, &reserved_}) counter->reset_peak();
}

}  // namespace plimsoll
