// What one device's recorded trace tells: how much was in use and when, what held it at the peak, how well
// the allocator's twin plays it again, and what other settings would have made of the same requests.
//
//   PLIMSOLL_TRY(analysis, analyze(trace, {.what_if = {"expandable_segments:True"}}));
//   analysis.peak.allocated;  // Bytes, as torch.cuda.memory_stats() counts
//
// Sizes of blocks are those of the twin, which knows what was rounded and left unsplit. Does not model: what
// happened before the trace's first event, beyond the blocks that are left of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/replay.h"
#include "base/result.h"
#include "replay/fragmentation.h"
#include "replay/give_backs.h"
#include "replay/held_blocks.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

struct AtDump {
  int64_t segments = 0;
  Bytes reserved, allocated, active;
};

struct LiveBlock {
  std::optional<size_t> event;  // its alloc; none: from before the trace
  uint64_t address = 0;
  Bytes bytes;  // with rounding and unsplit tail
  Bytes requested;
  std::optional<StackId> stack;
  bool is_stack_of_free = false;  // of a block from before the trace; else of its alloc
  std::optional<size_t> freed;    // the free_requested; none: alive at the dump
};

struct MemoryPeak {
  Bytes value;
  std::optional<size_t> event;  // after which; none: at the trace's start
};

struct CurvePoint {  // the highest values within a stretch of events
  Bytes allocated, active, reserved;
};

// A request that failed in the recording.
struct RecordedOutOfMemory {
  size_t event = 0;
  std::optional<FrameId> frame;  // the line that asked
  Bytes requested;               // rounded to blocks
  Bytes allocated, reserved;     // then, with nothing cached any more that could go back
  Bytes device_free;
};

struct WhatIf {
  bool is_as_recorded = false;        // under the settings of the recording
  bool is_suggested = false;          // not asked for
  std::string configuration;          // PYTORCH_ALLOC_CONF
  std::optional<Bytes> capacity;      // of the device, what is left for the allocator
  bool is_capacity_recorded = false;  // what the recorded device had, not one that was asked for
  Bytes peak_reserved, peak_allocated;
  int64_t retries = 0;
  std::optional<size_t> out_of_memory_at;  // event
  std::optional<OutOfMemory> out_of_memory;
  std::optional<FrameId> out_of_memory_frame;
  int64_t served_failures = 0;              // requests that failed in the recording
  std::vector<std::string> without_effect;  // of the settings
};

struct SnapshotAnalysis {
  AtDump at_dump;
  size_t events = 0;
  MemoryPeak allocated, active, reserved;
  Bytes idle_at_reserved_peak;  // reserved, but not allocated
  std::vector<RecordedOutOfMemory> out_of_memory;
  Bytes allocated_replayed_backwards;  // from the dump back, by the sizes that the trace shows
  std::vector<LiveBlock> at_peak;      // when `allocated` peaks; largest first
  Fragmentation fragmentation;         // when `allocated` peaks
  StepPhases steps;
  HeldBlocks held;
  GiveBacks given_back;
  std::vector<CurvePoint> curve;
  ReplayResult replay;
  // Where any is asked for or suggested, the recorded settings first: what the others are held against.
  std::vector<WhatIf> what_if;
};

// Whether fragmentation was worth a look at expandable segments: a tenth of what was reserved at its peak.
// A peak from before the trace can't be played anew.
bool is_much_idle(const SnapshotAnalysis& analysis);
inline constexpr std::string_view kSuggestedSettings = "expandable_segments:True";

struct AnalysisOptions {
  std::vector<std::string> what_if;  // PYTORCH_ALLOC_CONF strings
  // Of a device, what is left for the allocator, and all that its driver offers (by default the same).
  std::optional<Bytes> capacity, device;
  std::string file;  // of the trace, for errors
  // Plays kSuggestedSettings too where nothing is asked for and is_much_idle(), of traces up to so many
  // events.
  size_t suggests_up_to = 0;
};

// Errors: a configuration that PyTorch would refuse, a trace that can't be replayed.
Result<SnapshotAnalysis> analyze(const AllocationTrace& trace, const AnalysisOptions& options = {});

}  // namespace plimsoll
