// Writes timelines as Trace Event JSON, which Perfetto and chrome://tracing open: a process for each
// timeline, a thread for each track with its slices ("X"), and counters ("C") of allocated, active and
// reserved bytes.
//
//   TraceEventWriter writer(file);
//   writer.add("rank 0", timeline);
//   writer.finish();
//
// Source: "Trace Event Format", the document of the Chromium project. Times are in microseconds there,
// written with three decimals.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "trace/timeline.h"

namespace plimsoll {

class TraceEventWriter {
 public:
  // Writes the head. The stream must outlive the writer.
  explicit TraceEventWriter(std::ostream& out);

  void add(std::string_view process_name, const Timeline& timeline);
  // Writes the foot. Nothing may be added after it.
  void finish();

 private:
  void write_track_names(const Timeline& timeline);
  void write_slice(const Timeline& timeline, const TimelineSlice& slice);
  void write_sample(const MemorySample& sample);
  void begin_event();
  void flush();

  std::ostream& out_;
  std::string buffer_;
  int process_ = -1;
  bool is_first_ = true;
};

}  // namespace plimsoll
