// Plays a complete program's schedule into a heap and says what memory does: per phase its peak, at the peak
// who is alive.
//
//   CachingHeap heap({});
//   Result<MemoryTimeline> timeline = simulate(program, heap);
//   timeline->phases[1].live.peak;
//
// `live` is the sum of living storages, each rounded up to 512 bytes; allocated, active and reserved are the
// heap's counters. Does not model time: cost/ and the event queue come with it.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "allocator/heap.h"
#include "base/result.h"
#include "program/program.h"

namespace plimsoll {

struct PhaseMemory {
  std::string phase;
  Bytes live_start, live_peak, live_end;
  Bytes allocated_peak, active_peak, reserved_peak;
  Bytes host_peak;
  std::optional<OpId> peak_op;       // that reached live_peak; empty when the phase starts with it
  std::optional<size_t> peak_event;  // position in the event order at which live_peak was reached
  Bytes workspace_peak;              // highest live + workspace of an op
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
  OutOfMemory details;
};

struct MemoryTimeline {
  std::vector<PhaseMemory> phases;  // in the order of the schedule
  std::vector<MemoryEvent> events;  // kept when asked for
  std::optional<OomEvent> oom;      // the heap refused; the run ends there
};

struct SimulateOptions {
  bool keeps_events = false;
  bool workspaces_in_heap = true;  // an op's workspace is taken from the heap and given back within the op
};

MemoryTimeline simulate(const Program& program, Heap& heap, const SimulateOptions& options = {});

// Who is alive right after the event of that position. REQUIRES timeline.events kept.
std::vector<LiveStorage> live_at(const MemoryTimeline& timeline, size_t event);

}  // namespace plimsoll
