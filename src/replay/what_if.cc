#include "replay/what_if.h"

#include <utility>

#include "allocator/caching_heap.h"
#include "allocator/device_memory.h"

namespace plimsoll {
namespace {

using Kind = ReplayOp::Kind;

bool gives_back(const ReplayOp& op) {
  return op.kind == Kind::kSegmentFree || op.kind == Kind::kSegmentUnmap;
}

class Play {
 public:
  Play(const ReplayScript& script, const GiveBacks& given_back, const AllocatorSettings& settings,
       SimulatedDevice device)
      : script_(script),
        given_back_(given_back),
        device_(std::move(device)),
        heap_({.settings = settings, .device = &device_}) {}

  void run(WhatIf& answer) {
    blocks_.assign(script_.slots, kEmptyBlock);
    for (size_t pool = 1; pool < script_.pools.size(); ++pool) heap_.open_pool(script_.pools[pool]);
    is_released_.resize(script_.pools.size());
    place_earlier_blocks(answer);
    for (size_t at = 0; at < script_.ops.size() && !answer.out_of_memory; ++at) play(at, answer);
    const HeapStats stats = heap_.stats();
    answer.peak_reserved = stats.reserved.peak;
    answer.peak_allocated = stats.allocated.peak;
    answer.retries = stats.num_alloc_retries;
  }

 private:
  void place_earlier_blocks(WhatIf& answer) {
    for (size_t i = 0; i < script_.at_start.segments.size(); ++i) {
      const TraceSegment& segment = script_.at_start.segments[i];
      const ReplayPlace place{.stream = script_.stream_of(segment.stream),
                              .pool = segment.pool < script_.pools.size() ? segment.pool : PoolIndex{0}};
      auto slot = script_.start_slots[i].begin();
      for (const TraceBlock& block : segment.blocks) {
        if (block.state == BlockState::kFree || answer.out_of_memory) continue;
        allocate(*slot, block.requested.value > 0 ? block.requested : block.bytes, place, std::nullopt,
                 answer);
        if (block.state == BlockState::kPendingFree) begin_free(*slot);
        ++slot;
      }
    }
  }

  void allocate(uint32_t slot, Bytes bytes, ReplayPlace place, std::optional<size_t> event, WhatIf& answer) {
    const Allocation block = heap_.alloc_in(place.pool, bytes, place.stream);
    blocks_[slot] = block.value_or(kEmptyBlock);
    if (block) return;
    answer.out_of_memory = block.error();
    answer.out_of_memory_at = event;
  }

  void play(size_t at, WhatIf& answer) {
    const ReplayOp& op = script_.ops[at];
    switch (op.kind) {
      case Kind::kAlloc:
        return allocate(op.slot, Bytes{static_cast<int64_t>(op.bytes)}, script_.places[op.place], op.event,
                        answer);
      case Kind::kFree:
        return heap_.free(blocks_[op.slot]);
      case Kind::kBeginFree:
        return begin_free(op.slot);
      case Kind::kEndFree:
        if (blocks_[op.slot] != kEmptyBlock) heap_.end_free({.index = blocks_[op.slot].index});
        return;
      case Kind::kSegmentFree:
      case Kind::kSegmentUnmap:
        if (at == 0 || !gives_back(script_.ops[at - 1])) give_back(at);
        return;
      case Kind::kOutOfMemory:
        return try_failed(op, answer);
      case Kind::kSegmentAlloc:
      case Kind::kSegmentMap:
        return;
    }
  }

  // While a block waits for other streams its slot holds the hold on it.
  void begin_free(uint32_t slot) {
    if (blocks_[slot] != kEmptyBlock) blocks_[slot] = BlockId{heap_.begin_free(blocks_[slot]).index};
  }

  void try_failed(const ReplayOp& op, WhatIf& answer) {
    const ReplayPlace& place = script_.places[op.place];
    const Allocation block = heap_.alloc_in(place.pool, Bytes{static_cast<int64_t>(op.bytes)}, place.stream);
    if (block) {
      ++answer.served_failures;
      return heap_.free(*block);
    }
    answer.out_of_memory = block.error();
    answer.out_of_memory_at = op.event;
  }

  void give_back(size_t at) {
    const GiveBack* const run = given_back_.at(script_.ops[at].event);
    if (run && run->reason != GiveBackReason::kProgram) return;
    for (; at < script_.ops.size() && gives_back(script_.ops[at]); ++at) {
      const PoolIndex pool = script_.places[script_.ops[at].place].pool;
      if (pool == 0 || is_released_[pool]) continue;
      heap_.release_pool(pool);
      is_released_[pool] = true;
    }
    heap_.empty_cache();
  }

  const ReplayScript& script_;
  const GiveBacks& given_back_;
  SimulatedDevice device_;
  CachingHeap heap_;
  std::vector<BlockId> blocks_;    // by slot
  std::vector<bool> is_released_;  // by pool
};

}  // namespace

WhatIf play_under(const ReplayScript& script, const GiveBacks& given_back, const AllocatorSettings& settings,
                  const WhatIfDevice& device) {
  WhatIf answer{.capacity = device.capacity};
  if (!device.capacity && given_back.limit) {
    answer.capacity = given_back.limit->at_least;
    answer.is_capacity_recorded = true;
  }
  Play(script, given_back, settings, SimulatedDevice(answer.capacity, device.total)).run(answer);
  return answer;
}

}  // namespace plimsoll
