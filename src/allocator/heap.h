// What a program's allocations are played into. A heap knows sizes and streams and nothing of training; fed
// with the same calls, two heaps show what an allocator costs: lower_bound has no fragmentation,
// pytorch_caching has PyTorch's, and the difference of their reserved peaks is the fragmentation.
//
// Invariant: requested <= allocated <= active <= reserved at every moment; live blocks don't overlap.
// Not thread-safe. Deterministic: the same calls give the same blocks and counters.
//
//   LowerBoundHeap heap;
//   Allocation block = heap.alloc(Bytes{1000}, kDefaultStream);
//   if (!block) return report(block.error());
//   heap.free(*block);
//   heap.stats().allocated.peak;  // 1024
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "base/units.h"

namespace plimsoll {

// Streams are small dense numbers; whoever reads traces with stream pointers maps them.
using HeapStream = uint16_t;
inline constexpr HeapStream kDefaultStream = 0;

// A live block. Its number may be given to another block after it was freed.
struct BlockId {
  uint32_t index = 0;

  friend bool operator==(BlockId, BlockId) = default;
};

// What a request for zero bytes gets, as in PyTorch: no memory; freeing it does nothing.
inline constexpr BlockId kEmptyBlock{std::numeric_limits<uint32_t>::max()};

// Why a request failed. All that the message of PyTorch's OutOfMemoryError says.
struct OutOfMemory {
  Bytes requested;       // by the program
  Bytes segment_wanted;  // from the device, after rounding; for a heap without segments the rounded request
  Bytes allocated;       // at that moment
  Bytes reserved;
  std::optional<Bytes> device_free;  // what the device still had; empty: not limited (the request is absurd)

  std::string to_text() const;
};

using Allocation = tl::expected<BlockId, OutOfMemory>;

struct Level {
  Bytes current;
  Bytes peak;

  friend bool operator==(const Level&, const Level&) = default;
};

// The names are those of torch.cuda.memory_stats().
struct HeapStats {
  Level requested;       // what the program asked for
  Level allocated;       // whole blocks in use: rounding and unsplit tails included
  Level active;          // allocated, and freed blocks that wait for another stream
  Level reserved;        // segments held from the device
  Level inactive_split;  // free parts of segments that are partly in use
  int64_t num_allocs = 0;
  int64_t num_frees = 0;
  int64_t num_device_alloc = 0;   // segments got (or ranges mapped)
  int64_t num_device_free = 0;    // segments given back (or ranges unmapped)
  int64_t num_alloc_retries = 0;  // cached segments had to be given back to go on: each stalls the device
  int64_t num_ooms = 0;
  int64_t segments = 0;  // held now

  friend bool operator==(const HeapStats&, const HeapStats&) = default;
};

// When streams get done with what they were given. A heap that is told asks it when a block was used by
// another stream than its own. Times are of one clock.
class StreamClock {
 public:
  virtual ~StreamClock() = default;
  virtual Nanoseconds now() const = 0;                          // of the thread that allocates
  virtual Nanoseconds busy_until(HeapStream stream) const = 0;  // end of all work issued to the stream so far
};

class Heap {
 public:
  virtual ~Heap() = default;

  virtual std::string_view name() const = 0;
  // REQUIRES size >= 0.
  virtual Allocation alloc(Bytes size, HeapStream stream) = 0;
  // REQUIRES block is live: got from alloc() and not yet freed.
  virtual void free(BlockId block) = 0;
  // Tells that another stream uses the block, as Tensor.record_stream() does. Does nothing by default.
  virtual void record_stream(BlockId /*block*/, HeapStream /*stream*/) {}
  // Waits for all streams, so that nothing is pending, as the end of a step does. Blocks stay live.
  virtual void finish() {}

  virtual HeapStats stats() const = 0;
  virtual void reset_peaks() = 0;  // each peak becomes the current value
};

}  // namespace plimsoll
