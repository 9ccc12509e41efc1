// Plays a complete program's schedule into a heap and says what memory does: per phase its peak, at the peak
// who is alive.
//
//   CachingHeap heap({});
//   MemoryTimeline timeline = simulate(program, heap, {.keeps_events = true});
//   timeline.phases[1].live_peak;
//
// `live` is the sum of living storages, each rounded up to 512 bytes; allocated, active and reserved are the
// heap's counters, which also see what libraries and kernels take. Does not model time: cost/ and the event
// queue come with it.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "allocator/allocator_settings.h"
#include "allocator/heap.h"
#include "base/result.h"
#include "program/program.h"

namespace plimsoll {

struct PhaseMemory {
  std::string phase;
  Bytes live_start, live_peak, live_end;
  Bytes allocated_peak, active_peak, reserved_peak;
  Bytes allocated_end, active_end, reserved_end;
  Bytes host_peak, host_end;      // pinned memory as its cache holds it, see allocator/pinned_host_heap.h
  Bytes pinned_peak, pinned_end;  // of it
  Bytes pageable_peak, pageable_end;
  Bytes disk_peak, disk_end;
  std::optional<OpId> peak_op;       // that reached live_peak; empty when the phase starts with it
  std::optional<size_t> peak_event;  // position in the event order at which live_peak was reached
  Bytes workspace_peak;              // highest live + workspace of an op
  Bytes library_workspace;           // that libraries hold at the end, in the heap and not in live
  int64_t alloc_retries = 0;         // the heap gave cached segments back to go on
};

struct MemoryEvent {
  bool is_alloc = true;
  StorageId storage;
  OpId op;             // that allocates, or after which it is freed
  uint32_t phase = 0;  // index into MemoryTimeline::phases
};

struct LiveStorage {
  StorageId storage;
  OpId born_op;
  uint32_t born_phase = 0;
  size_t born_event = 0;
};

struct OomEvent {
  uint32_t phase = 0;
  OpId op;
  std::optional<StorageId> storage;  // that could not be had; empty: a workspace
  OutOfMemory details;
};

struct MemoryTimeline {
  std::vector<PhaseMemory> phases;   // in the order of the schedule
  std::vector<MemoryEvent> events;   // kept when asked for
  std::optional<OomEvent> oom;       // the heap refused; the run ends there
  std::vector<bool> is_live_at_end;  // by storage
};

// Is told what the run does as it does it; may look at the heap meanwhile.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void begin_phase(const std::string& /*name*/) {}
  virtual void begin_op(OpId /*op*/) {}  // before its allocations
  // On the GPU, of that category.
  virtual void before_alloc(Category /*category*/) {}
  virtual void after_statement() {}  // an op or a free
};

struct SimulateOptions {
  bool keeps_events = false;
  bool workspaces_in_heap = true;  // an op's workspace is taken from the heap and given back within the op
  // What cuBLAS takes from the heap at the first matrix product of each (thread, stream) and keeps: forward
  // and optimizer run in one thread, the backward in another. Source: PyTorch, CublasHandlePool.cpp.
  Bytes library_workspace;
  AllocatorSettings settings;  // of the cache of pinned host memory; `heap` has its own
  RunObserver* observer = nullptr;
};

MemoryTimeline simulate(const Program& program, Heap& heap, const SimulateOptions& options = {});

// Who is alive right after the event of that position. REQUIRES timeline.events kept.
std::vector<LiveStorage> live_at(const MemoryTimeline& timeline, size_t event);

}  // namespace plimsoll
