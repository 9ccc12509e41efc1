// What an allocator did, simulated or recorded: events in order, and the segments with their blocks at the
// end. Plain data. The simulator's heaps write it, the snapshot reader fills it, the snapshot writer and the
// replay read it.
//
// Invariant: `events` are in the order in which they happened; `segments` are sorted by address, the blocks
// of a segment tile it in order of address; every stack id is an index into `stacks`. Units: bytes; times are
// nanoseconds since an origin that the producer chooses. Source: facts of the PyTorch memory snapshot,
// torch/cuda/_memory_viz.py.
//
//   AllocationTrace trace;
//   AllocationRecorder recorder(trace);
//   recorder.set_stack(trace.stacks.add({{.name = "aten::mm", .filename = "layers.0.mlp", .line = 0}}));
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/packed_optional.h"
#include "base/units.h"
#include "trace/stack_table.h"

namespace plimsoll {

enum class AllocationAction : uint8_t {
  kAlloc,          // address of the block, bytes as requested
  kFreeRequested,  // the program let go of it
  kFreeCompleted,  // the allocator may use it again
  kSegmentAlloc,   // address and bytes of a segment got from the driver; comes before the alloc it serves
  kSegmentFree,    // given back
  kSegmentMap,     // pages mapped into an expandable segment
  kSegmentUnmap,   // pages unmapped
  kOutOfMemory,    // address holds the device's free bytes, bytes the rounded request
  kSnapshot,       // the moment of the dump
  kUserDefined     // an annotation
};

// Where a block comes from: 0 is the default pool, others are indices into `AllocationTrace::pools`.
using PoolIndex = uint16_t;

// 40 bytes: a trace has up to tens of millions of them.
struct AllocationEvent {
  AllocationAction action = AllocationAction::kAlloc;
  PoolIndex pool = 0;
  PackedOptional<std::numeric_limits<StackId>::max()> stack;
  uint64_t address = 0;
  Bytes bytes;
  uint64_t stream = 0;  // 0 is the default stream
  PackedOptional<Nanoseconds{std::numeric_limits<int64_t>::min()}> time;

  friend bool operator==(const AllocationEvent&, const AllocationEvent&) = default;
};

enum class BlockState : uint8_t {
  kAllocated,    // the program holds it
  kPendingFree,  // freed, but another stream may still use it
  kFree          // cached
};

struct TraceBlock {
  uint64_t address = 0;
  Bytes bytes;
  Bytes requested;  // 0 when free
  BlockState state = BlockState::kFree;
  std::optional<StackId> stack;
  bool is_stack_of_free = false;  // nothing else shows the block; else of its alloc

  friend bool operator==(const TraceBlock&, const TraceBlock&) = default;
};

struct TraceSegment {
  uint64_t address = 0;
  Bytes bytes;
  uint64_t stream = 0;
  PoolIndex pool = 0;
  bool is_large = false;  // of the pool for requests above 1 MiB
  bool is_expandable = false;
  std::optional<StackId> stack;
  std::vector<TraceBlock> blocks;

  friend bool operator==(const TraceSegment&, const TraceSegment&) = default;
};

// The allocator's settings as a snapshot shows them.
struct RecordedSettings {
  std::string text;                     // PYTORCH_ALLOC_CONF
  std::optional<Bytes> max_split_size;  // empty: no limit
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  std::array<uint64_t, 16> roundup_power2_divisions{};  // of the intervals from 1 MiB to 32 GiB

  friend bool operator==(const RecordedSettings&, const RecordedSettings&) = default;
};

// A private pool: of a CUDA graph (its second number counts) or of a MemPool (the first one does).
struct PoolId {
  int64_t owner = 0;
  int64_t id = 0;

  friend bool operator==(const PoolId&, const PoolId&) = default;
};

// A moment that the program named: a record_function began or ended, or one of the allocator's annotations.
struct TraceAnnotation {
  Nanoseconds time;
  std::string name;
  bool is_end = false;

  friend bool operator==(const TraceAnnotation&, const TraceAnnotation&) = default;
};

// What the program attached to an event (user_metadata), by the event's place.
struct EventMetadata {
  uint64_t event = 0;
  std::string text;

  friend bool operator==(const EventMetadata&, const EventMetadata&) = default;
};

// What of a recorded trace isn't whole, and how often.
struct TraceImperfection {
  std::string what;
  int64_t count = 0;

  friend bool operator==(const TraceImperfection&, const TraceImperfection&) = default;
};

struct AllocationTrace {
  int device = 0;
  std::vector<AllocationEvent> events;
  std::vector<TraceSegment> segments;
  RecordedSettings settings;
  std::vector<PoolId> pools = {{}};  // the default one is the first
  std::vector<TraceAnnotation> annotations;
  std::vector<EventMetadata> metadata;  // sorted by event
  StackTable stacks;
};

// Appends events to a trace, with the stack and the time that hold at the moment. The trace must outlive it.
class AllocationRecorder {
 public:
  explicit AllocationRecorder(AllocationTrace& trace) : trace_(&trace) {}

  void set_stack(std::optional<StackId> stack) { stack_ = stack; }
  void set_time(std::optional<Nanoseconds> time) { time_ = time; }
  std::optional<StackId> stack() const { return stack_; }

  void record(AllocationAction action, uint64_t address, Bytes bytes, uint64_t stream, PoolIndex pool = 0) {
    trace_->events.push_back({.action = action,
                              .pool = pool,
                              .stack = stack_,
                              .address = address,
                              .bytes = bytes,
                              .stream = stream,
                              .time = time_});
  }

 private:
  AllocationTrace* trace_;
  std::optional<StackId> stack_;
  std::optional<Nanoseconds> time_;
};

}  // namespace plimsoll
