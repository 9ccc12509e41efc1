// The state of an allocator when a trace begins, told from the state at its end: the events are undone one by
// one, last first.
//
// What the trace doesn't say: how much larger than its request a block was that had been allocated before the
// trace and was freed in it, in the large pool. What shows it nevertheless: a gap of up to 1 MiB behind a
// block is the block's tail, for no free block there is so small; a request at or above max_split_size keeps
// its segment whole; a larger gap begins where the first allocation into it lands while the block lives. If
// nothing shows it, the block is taken to end where its rounded request ends, and it is named in
// `unknown_tails`. What contradicts the rest (blocks and segments that overlap) is left out. Units: bytes.
// Source: should_split in c10/cuda/CUDACachingAllocator.cpp.
//
//   std::vector<TraceSegment> before = segments_at_start(trace);
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "trace/allocation_trace.h"

namespace plimsoll {

// How the recorded allocator made blocks of requests; by default as PyTorch does without settings.
struct BlockRules {
  std::function<Bytes(Bytes)> round;    // a request's block when cut to fit; empty: the next multiple of 512
  std::optional<Bytes> max_split_size;  // larger blocks are never split
  Bytes large_page{int64_t{20} << 20};  // of expandable segments of the large pool
};

// A block from before the trace that may be larger than the trace shows.
struct UnknownTail {
  uint64_t address = 0;  // of the block
  Bytes bytes;           // what it has at least
  Bytes largest_tail;    // what it may have beyond that

  friend bool operator==(const UnknownTail&, const UnknownTail&) = default;
};

struct StateAtStart {
  std::vector<TraceSegment> segments;      // sorted by address; blocks tile them
  std::vector<UnknownTail> unknown_tails;  // sorted by address
};

// False where each free repeats the stack of its alloc, as of a recording that has stacks of allocs only
// (context="alloc": free_block's `context ? context : block->context_when_allocated`). A block that is older
// than the trace and freed in it then has the stack that asked for it.
bool frees_have_own_stacks(const AllocationTrace& trace);

StateAtStart state_at_start(const AllocationTrace& trace, const BlockRules& rules = {});
std::vector<TraceSegment> segments_at_start(const AllocationTrace& trace);

}  // namespace plimsoll
