#include "trace/trace_event_writer.h"

#include <fmt/format.h>

#include <iterator>

#include "trace/utf8.h"

namespace plimsoll {
namespace {

constexpr size_t kBuffer = 1U << 16;  // bytes kept back from the stream

std::string microseconds(Nanoseconds time) {
  const bool is_negative = time.value < 0;
  const int64_t magnitude = is_negative ? -time.value : time.value;
  return fmt::format("{}{}.{:03}", is_negative ? "-" : "", magnitude / 1000, magnitude % 1000);
}

}  // namespace

TraceEventWriter::TraceEventWriter(std::ostream& out)
    : out_(out), buffer_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n") {}

void TraceEventWriter::add(std::string_view process_name, const Timeline& timeline) {
  ++process_;
  begin_event();
  fmt::format_to(std::back_inserter(buffer_),
                 R"({{"ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":{}}}}})", process_,
                 to_json_string(process_name));
  write_track_names(timeline);
  for (const TimelineSlice& slice : timeline.slices) write_slice(timeline, slice);
  for (const MemorySample& sample : timeline.memory) write_sample(sample);
}

void TraceEventWriter::write_track_names(const Timeline& timeline) {
  for (size_t track = 0; track < timeline.tracks.size(); ++track) {
    begin_event();
    fmt::format_to(std::back_inserter(buffer_),
                   R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", process_,
                   track + 1, to_json_string(timeline.tracks[track]));
    begin_event();
    fmt::format_to(std::back_inserter(buffer_),
                   R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
                   process_, track + 1, track);
  }
}

void TraceEventWriter::write_slice(const Timeline& timeline, const TimelineSlice& slice) {
  begin_event();
  fmt::format_to(std::back_inserter(buffer_), R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{})",
                 process_, slice.track + 1, microseconds(slice.begin), microseconds(slice.duration),
                 to_json_string(timeline.names.at(slice.name)));
  if (slice.owner) {
    fmt::format_to(std::back_inserter(buffer_), R"(,"args":{{"module":{}}})",
                   to_json_string(timeline.names.at(*slice.owner)));
  }
  buffer_ += '}';
}

void TraceEventWriter::write_sample(const MemorySample& sample) {
  begin_event();
  fmt::format_to(
      std::back_inserter(buffer_),
      R"({{"ph":"C","pid":{},"ts":{},"name":"memory","args":{{"allocated_bytes":{},"active_bytes":{},"reserved_bytes":{}}}}})",
      process_, microseconds(sample.time), sample.allocated.value, sample.active.value,
      sample.reserved.value);
}

void TraceEventWriter::begin_event() {
  if (!is_first_) buffer_ += ",\n";
  is_first_ = false;
  if (buffer_.size() >= kBuffer) flush();
}

void TraceEventWriter::finish() {
  buffer_ += "\n]}\n";
  flush();
}

void TraceEventWriter::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

}  // namespace plimsoll
