// One rank's step in time, simulated or measured: what ran when on which track, and how much memory was held.
//
// Invariant: name and track ids are indices into `names` and `tracks`; memory samples are sorted by time, and
// a sample holds until the next one. Units: nanoseconds since the step's origin, bytes.
//
//   Timeline timeline;
//   const TrackId stream = timeline.add_track("stream 0");
//   timeline.slices.push_back({.name = timeline.add_name("aten::mm"), .track = stream, .duration =
//   Nanoseconds{1000}}); timeline.memory.push_back({.time = Nanoseconds{0}, .allocated = kGiB});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"

namespace plimsoll {

using TrackId = uint32_t;
using NameId = uint32_t;

// Something that takes time on a track; slices of one track nest or follow each other.
struct TimelineSlice {
  NameId name = 0;
  std::optional<NameId> owner;  // module path
  TrackId track = 0;
  Nanoseconds begin;
  Nanoseconds duration;

  friend bool operator==(const TimelineSlice&, const TimelineSlice&) = default;
};

// Device memory from this moment on.
struct MemorySample {
  Nanoseconds time;
  Bytes allocated;
  Bytes active;
  Bytes reserved;

  friend bool operator==(const MemorySample&, const MemorySample&) = default;
};

struct Timeline {
  std::vector<std::string> tracks;  // phases, streams, in the order in which they are shown
  std::vector<std::string> names;
  std::vector<TimelineSlice> slices;
  std::vector<MemorySample> memory;

  TrackId add_track(std::string name);
  NameId add_name(const std::string& name);  // the same id for the same name
  Nanoseconds end() const;                   // of the last slice or sample

 private:
  std::unordered_map<std::string, NameId> name_ids_;
};

}  // namespace plimsoll
