// A recorded trace made ready to be played into heaps many times: one operation for each call that the
// program or the allocator made, blocks by dense slots instead of addresses, streams and pools by small
// numbers. Compiled once, shared by the replay and every what-if.
//
//   events   alloc 0x7f..00 | free_requested 0x7f..00 | free_completed 0x7f..00 | alloc 0x7f..00
//   ops      alloc slot 0   | free slot 0                                       | alloc slot 0
//
// Invariant: ops are in the order of the trace; at any moment a slot is of at most one block; a slot that is
// freed was given by an alloc before or by a block at the start. Plain data. Units: bytes.
//
//   PLIMSOLL_TRY(script, ReplayScript::compile(trace, settings));
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "allocator/allocator_settings.h"
#include "allocator/caching_heap.h"
#include "base/result.h"
#include "trace/allocation_trace.h"
#include "trace/trace_state.h"

namespace plimsoll {

inline constexpr uint32_t kNoOp = std::numeric_limits<uint32_t>::max();

struct ReplayOp {
  enum class Kind : uint8_t {
    kAlloc,
    kFree,       // requested and completed at once
    kBeginFree,  // requested; other streams still use the block
    kEndFree,    // completed
    kSegmentAlloc,
    kSegmentMap,
    kSegmentFree,
    kSegmentUnmap,
    kOutOfMemory
  };
  Kind kind = Kind::kAlloc;
  uint16_t place = 0;  // index into ReplayScript::places
  uint32_t slot = 0;   // of the block; of new memory: the op that asked for it, or kNoOp
  uint32_t event = 0;  // index into the trace, of the first event that this is
  uint64_t bytes = 0;  // as recorded
  uint64_t address = 0;
};

// Where a block comes from.
struct ReplayPlace {
  HeapStream stream = kDefaultStream;
  PoolIndex pool = 0;

  friend bool operator==(const ReplayPlace&, const ReplayPlace&) = default;
};

struct ReplayScript {
  // `settings` are those that held when the trace was recorded. Errors: more streams, pools or events than a
  // real trace has; they name the file.
  static Result<ReplayScript> compile(const AllocationTrace& trace, const AllocatorSettings& settings,
                                      const std::string& file = {});

  HeapStream stream_of(uint64_t recorded) const;  // REQUIRES the trace has such a stream

  std::vector<ReplayOp> ops;
  uint32_t slots = 0;
  std::vector<ReplayPlace> places;
  std::vector<uint64_t> streams;          // as recorded, by HeapStream
  std::vector<PrivatePoolOptions> pools;  // by PoolIndex; the default one's entry isn't used
  StateAtStart at_start;
  // By segment at the start: the slots of its blocks that aren't free.
  std::vector<std::vector<uint32_t>> start_slots;
  size_t events = 0;
  bool has_pages = false;     // whether there are kSegmentMap or kSegmentUnmap
  int64_t unknown_frees = 0;  // of blocks that never were; left out
};

}  // namespace plimsoll
