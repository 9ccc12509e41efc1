#include "trace/torch_snapshot_writer.h"

#include <unordered_map>

#include "trace/pickle_writer.h"

namespace plimsoll {
namespace {

std::string_view name_of(AllocationAction action) {
  switch (action) {
    case AllocationAction::kAlloc:
      return "alloc";
    case AllocationAction::kFreeRequested:
      return "free_requested";
    case AllocationAction::kFreeCompleted:
      return "free_completed";
    case AllocationAction::kSegmentAlloc:
      return "segment_alloc";
    case AllocationAction::kSegmentFree:
      return "segment_free";
    case AllocationAction::kSegmentMap:
      return "segment_map";
    case AllocationAction::kSegmentUnmap:
      return "segment_unmap";
    case AllocationAction::kOutOfMemory:
      return "oom";
    case AllocationAction::kSnapshot:
      return "snapshot";
    case AllocationAction::kUserDefined:
      return "user_defined";
  }
  return "";
}

std::string_view name_of(BlockState state) {
  switch (state) {
    case BlockState::kAllocated:
      return "active_allocated";
    case BlockState::kPendingFree:
      return "active_pending_free";
    case BlockState::kFree:
      return "inactive";
  }
  return "";
}

class SnapshotWriter {
 public:
  SnapshotWriter(std::span<const AllocationTrace> traces, std::ostream& out)
      : traces_(traces), stacks_(traces.size()), pickle_(out) {}

  void write() {
    pickle_.begin_dict();
    write_segments();
    write_traces();
    write_settings();
    write_annotations();
    pickle_.end_dict();
    pickle_.finish();
  }

 private:
  const AllocationTrace& trace() const { return traces_[at_]; }

  void item(std::string_view key, Bytes value) { item(key, value.value); }
  void item(std::string_view key, int64_t value) {
    pickle_.key(key);
    pickle_.integer(value);
  }
  void item(std::string_view key, uint64_t value) {
    pickle_.key(key);
    pickle_.unsigned_integer(value);
  }
  void item(std::string_view key, std::string_view value) {
    pickle_.key(key);
    pickle_.string(value);
  }
  void flag(std::string_view key, bool value) {
    pickle_.key(key);
    pickle_.boolean(value);
  }

  // The same stack is the same list throughout the file.
  void write_frames(std::optional<StackId> stack) {
    pickle_.key("frames");
    const bool is_known = stack && *stack < trace().stacks.size();
    const StackId id = is_known ? *stack : static_cast<StackId>(trace().stacks.size());
    const auto written = stacks_[at_].find(id);
    if (written != stacks_[at_].end()) return pickle_.use(written->second);
    pickle_.begin_list();
    if (is_known) {
      for (FrameId frame : trace().stacks.frames_of(id)) write_frame(trace().stacks.frame(frame));
    }
    pickle_.end_list();
    stacks_[at_][id] = pickle_.remember();
  }
  void write_frame(const StackFrame& frame) {
    pickle_.begin_dict();
    item("name", frame.name);
    item("filename", frame.filename);
    item("line", int64_t{frame.line});
    pickle_.end_dict();
  }

  void write_segments() {
    pickle_.key("segments");
    pickle_.begin_list();
    for (at_ = 0; at_ < traces_.size(); ++at_)
      for (const TraceSegment& segment : trace().segments) write_segment(segment);
    pickle_.end_list();
  }

  void write_segment(const TraceSegment& segment) {
    Bytes allocated, active, requested;
    for (const TraceBlock& block : segment.blocks) {
      if (block.state == BlockState::kAllocated) allocated += block.bytes;
      if (block.state != BlockState::kFree) active += block.bytes;
      if (block.state != BlockState::kFree) requested += block.requested;
    }
    pickle_.begin_dict();
    item("device", int64_t{trace().device});
    item("address", segment.address);
    item("total_size", segment.bytes);
    item("allocated_size", allocated);
    item("active_size", active);
    item("requested_size", requested);
    item("stream", segment.stream);
    item("segment_type", segment.is_large ? std::string_view("large") : "small");
    write_pool("segment_pool_id", segment.pool);
    flag("is_expandable", segment.is_expandable);
    write_frames(segment.stack);
    pickle_.key("blocks");
    pickle_.begin_list();
    for (const TraceBlock& block : segment.blocks) write_block(block);
    pickle_.end_list();
    pickle_.end_dict();
  }

  void write_block(const TraceBlock& block) {
    pickle_.begin_dict();
    item("address", block.address);
    item("size", block.bytes);
    item("requested_size", block.requested);
    item("state", name_of(block.state));
    write_frames(block.stack);
    pickle_.end_dict();
  }

  // A list for each device, empty for those in between that have no trace.
  void write_traces() {
    pickle_.key("device_traces");
    pickle_.begin_list();
    int device = 0;
    for (at_ = 0; at_ < traces_.size(); ++at_, ++device) {
      for (; device < trace().device; ++device) {
        pickle_.begin_list();
        pickle_.end_list();
      }
      pickle_.begin_list();
      write_events();
      pickle_.end_list();
    }
    pickle_.end_list();
  }
  void write_events() {
    auto metadata = trace().metadata.begin();
    for (size_t i = 0; i < trace().events.size(); ++i) {
      const bool is_told = metadata != trace().metadata.end() && metadata->event == i;
      write_event(trace().events[i], is_told ? std::string_view((metadata++)->text) : "");
    }
  }

  void write_event(const AllocationEvent& event, std::string_view metadata) {
    pickle_.begin_dict();
    const bool is_of_block = event.action == AllocationAction::kUserDefined && event.address != 0;
    item("action", is_of_block ? std::string_view("annotate") : name_of(event.action));
    item(event.action == AllocationAction::kOutOfMemory ? "device_free" : "addr", event.address);
    item("size", event.bytes);
    item("stream", event.stream);
    if (event.time) item("time_us", event.time->value / 1000);
    if (!metadata.empty()) item("user_metadata", metadata);
    if (event.pool != 0) write_pool("pool_id", event.pool);
    write_frames(event.stack);
    pickle_.end_dict();
  }

  void write_pool(std::string_view key, PoolIndex pool) {
    const PoolId id = pool < trace().pools.size() ? trace().pools[pool] : PoolId();
    pickle_.key(key);
    pickle_.pair(id.owner, id.id);
  }

  void write_annotations() {
    pickle_.key("external_annotations");
    pickle_.begin_list();
    for (at_ = 0; at_ < traces_.size(); ++at_)
      for (const TraceAnnotation& annotation : trace().annotations) write_annotation(annotation);
    pickle_.end_list();
  }
  void write_annotation(const TraceAnnotation& annotation) {
    pickle_.begin_dict();
    item("stage", annotation.is_end ? std::string_view("END") : "START");
    item("name", annotation.name);
    item("device", int64_t{trace().device});
    item("time_us", annotation.time.value / 1000);
    pickle_.end_dict();
  }

  void write_settings() {
    const RecordedSettings& settings = traces_.front().settings;
    pickle_.key("allocator_settings");
    pickle_.begin_dict();
    item("PYTORCH_CUDA_ALLOC_CONF", settings.text);
    item("max_split_size", settings.max_split_size ? settings.max_split_size->value : int64_t{-1});
    pickle_.key("garbage_collection_threshold");
    pickle_.number(settings.garbage_collection_threshold);
    flag("expandable_segments", settings.expandable_segments);
    pickle_.key("roundup_power2_divisions");
    pickle_.begin_dict();
    for (size_t interval = 0; interval < settings.roundup_power2_divisions.size(); ++interval) {
      item(std::to_string(uint64_t{1} << interval), settings.roundup_power2_divisions[interval]);
    }
    pickle_.end_dict();
    pickle_.end_dict();
  }

  std::span<const AllocationTrace> traces_;
  size_t at_ = 0;                                              // the trace that is written
  std::vector<std::unordered_map<StackId, uint32_t>> stacks_;  // of each trace, to the pickle's handle
  PickleWriter pickle_;
};

}  // namespace

void write_torch_snapshot(const AllocationTrace& trace, std::ostream& out) {
  write_torch_snapshot(std::span(&trace, 1), out);
}

void write_torch_snapshot(std::span<const AllocationTrace> traces, std::ostream& out) {
  SnapshotWriter(traces, out).write();
}

}  // namespace plimsoll
