// What stands at the outside of a snapshot: devices, their segments and traces, settings.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

#include "base/large_pages.h"
#include "importers/torch_snapshot/snapshot_builder.h"
#include "trace/stack_mover.h"

namespace plimsoll {
namespace {

using Key = SnapshotKey;

constexpr int64_t kMostDevices = 128;  // DeviceIndex of c10/core/Device.h is an int8_t

// Segments are sorted; the first that begins before the one before it has ended.
const TraceSegment* find_overlap(const std::vector<TraceSegment>& segments) {
  for (size_t i = 1; i < segments.size(); ++i) {
    const TraceSegment& before = segments[i - 1];
    if (segments[i].address - before.address < static_cast<uint64_t>(before.bytes.value)) return &segments[i];
  }
  return nullptr;
}

std::optional<size_t> slot_of(std::string_view mebibytes) {
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(mebibytes.data(), mebibytes.data() + mebibytes.size(), size);
  if (error != std::errc() || end != mebibytes.data() + mebibytes.size() || !std::has_single_bit(size))
    return std::nullopt;
  return static_cast<size_t>(std::countr_zero(size));
}

}  // namespace

Result<AllocationTrace*> SnapshotBuilder::device(int64_t index, const PickleReader& reader) {
  if (index < 0 || index >= kMostDevices)
    return reader.fail_here(fmt::format("a device of number {}", index),
                            fmt::format("0 to {}", kMostDevices - 1));
  AllocationTrace& trace = devices_[index];
  trace.device = static_cast<int>(index);
  return &trace;
}

SnapshotBuilder::Taken SnapshotBuilder::take_root(const Fields& f) {
  if (!devices_.empty())
    return f.reader().fail_here("a snapshot within a snapshot", "one dict with \"segments\"");
  PLIMSOLL_CHECK(place_segments(f.reader(), *f.find(Key::kSegments)));
  if (f.has(Key::kDeviceTraces)) PLIMSOLL_CHECK(place_traces(f.reader(), *f.find(Key::kDeviceTraces)));
  if (f.has(Key::kExternalAnnotations)) place_annotations(f.reader(), *f.find(Key::kExternalAnnotations));
  count_host_memory(f);
  if (f.has(Key::kAllocatorSettings)) read_settings(f.reader(), *f.find(Key::kAllocatorSettings));
  return PickleValue::object(kRoot, 0);
}

Result<void> SnapshotBuilder::place_segments(const PickleReader& reader, const PickleValue& list) {
  if (list.kind != PickleKind::kList) return reader.fail_here("\"segments\" has another type", "a list");
  const ObjectRange range = reader.objects(list).value_or(ObjectRange{.type = kSegment});
  if (range.type != kSegment || !reader.items(list).empty())
    return reader.fail_here("\"segments\" holds something else", "segments");
  for (uint32_t i = range.first; i < range.first + range.count; ++i) {
    PLIMSOLL_TRY(trace, device(segment_devices_[i], reader));
    trace->segments.push_back(std::move(segments_[i]));
  }
  for (auto& [index, trace] : devices_) {
    std::ranges::sort(trace.segments, {}, &TraceSegment::address);
    if (const TraceSegment* const bad = find_overlap(trace.segments))
      return reader.fail_here(
          fmt::format("the segment at {:#x} of device {} overlaps the one before", bad->address, index),
          "segments that lie apart");
  }
  return {};
}

Result<void> SnapshotBuilder::place_traces(const PickleReader& reader, const PickleValue& lists) {
  if (lists.kind != PickleKind::kList)
    return reader.fail_here("\"device_traces\" has another type", "a list of lists");
  int64_t index = 0;
  std::vector<ObjectRange> ranges;
  for (const PickleValue& list : reader.items(lists)) {
    const ObjectRange range = reader.objects(list).value_or(ObjectRange{.type = kEvent});
    if (list.kind != PickleKind::kList || range.type != kEvent || !reader.items(list).empty())
      return reader.fail_here(fmt::format("the trace of device {} holds something else", index),
                              "trace entries");
    if (range.count > 0) PLIMSOLL_CHECK(device(index, reader));
    ranges.push_back(range);
    ++index;
  }
  PLIMSOLL_CHECK(check_used_once(ranges, reader));
  for (size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].count > 0) place_events(ranges[i], static_cast<int64_t>(i));
  return {};
}

Result<void> SnapshotBuilder::check_used_once(const std::vector<ObjectRange>& traces,
                                              const PickleReader& reader) {
  std::vector<size_t> order;  // of the devices, by their events
  for (size_t i = 0; i < traces.size(); ++i)
    if (traces[i].count > 0) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return traces[i].first; });
  for (size_t at = 1; at < order.size(); ++at) {
    const ObjectRange& before = traces[order[at - 1]];
    if (traces[order[at]].first - before.first >= before.count) continue;
    return reader.fail_here(fmt::format("the trace of device {} has entries that are used twice: device {} "
                                        "has them too",
                                        order[at], order[at - 1]),
                            "a list of its own for each device");
  }
  return {};
}

void SnapshotBuilder::place_events(ObjectRange range, int64_t index) {
  AllocationTrace& trace = devices_[index];
  place_named_moments(range, trace);
  if (range.count == events_.size()) {
    trace.events = std::move(events_);
    events_.clear();
  } else {
    const auto own = std::span(events_).subspan(range.first, range.count);
    trace.events.assign(own.begin(), own.end());
    give_back_pages(own.data(), own.size_bytes());  // nothing reads them again
  }
  for (auto m = std::ranges::lower_bound(metadata_, uint64_t{range.first}, {}, &EventMetadata::event);
       m != metadata_.end() && m->event - range.first < range.count; ++m)
    trace.metadata.push_back({.event = m->event - range.first, .text = m->text});
}

// PyTorch 2.4 had record_function() among the events: a stack of one frame, {"name": "START" or "END",
// "filename": what was named}.
void SnapshotBuilder::place_named_moments(ObjectRange range, AllocationTrace& trace) {
  for (auto at = std::ranges::lower_bound(named_moments_, size_t{range.first});
       at != named_moments_.end() && *at - range.first < range.count; ++at) {
    const AllocationEvent& event = events_[*at];
    if (!event.stack || !event.time || stacks_.frames_of(*event.stack).size() != 1) continue;
    const StackFrame& frame = stacks_.frame(stacks_.frames_of(*event.stack).front());
    if (frame.name == "START" || frame.name == "END")
      trace.annotations.push_back(
          {.time = *event.time, .name = frame.filename, .is_end = frame.name == "END"});
  }
}

// Since PyTorch 2.14, with record_host=True.
void SnapshotBuilder::count_host_memory(const Fields& f) {
  const auto count_items = [&](const PickleValue& list, const std::string& what) {
    if (list.kind != PickleKind::kList) return;
    if (const auto objects = f.reader().objects(list); objects && objects->count > 0)
      return count(what, objects->count);
    for (const PickleValue& item : f.reader().items(list)) {
      const auto objects = f.reader().objects(item);
      if (item.kind == PickleKind::kList && objects && objects->count > 0) count(what, objects->count);
      if (item.kind == PickleKind::kDict) count(what);
    }
  };
  if (const PickleValue* list = f.find(Key::kHostTraces))
    count_items(*list, "events of pinned host memory, which aren't replayed");
  if (const PickleValue* list = f.find(Key::kHostSegments))
    count_items(*list, "segments of pinned host memory, which aren't counted");
}

void SnapshotBuilder::place_annotations(const PickleReader& reader, const PickleValue& list) {
  const ObjectRange range = reader.objects(list).value_or(ObjectRange{.type = kAnnotation});
  if (range.type != kAnnotation) return count("lists of annotations that hold something else");
  for (uint32_t i = range.first; i < range.first + range.count; ++i) {
    const auto found = devices_.find(annotation_devices_[i]);
    if (found == devices_.end())
      count("annotations of a device without memory");
    else
      found->second.annotations.push_back(std::move(annotations_[i]));
  }
}

void SnapshotBuilder::read_settings(const PickleReader& reader, const PickleValue& dict) {
  const std::span<const PickleValue> items = reader.items(dict);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind != PickleKind::kString) continue;
    const std::string_view key = reader.string(items[i]);
    const PickleValue& v = items[i + 1];
    if (v.kind == PickleKind::kString && key.ends_with("ALLOC_CONF"))
      settings_.text = std::string(reader.string(v));
    else if (v.kind == PickleKind::kInt && key == "max_split_size" && v.integer >= 0)
      settings_.max_split_size = Bytes{v.integer};
    else if (v.kind == PickleKind::kFloat && key == "garbage_collection_threshold")
      settings_.garbage_collection_threshold = v.number;
    else if (v.kind == PickleKind::kBool && key == "expandable_segments")
      settings_.expandable_segments = v.integer != 0;
    else if (v.kind == PickleKind::kInt && v.integer >= 0 && slot_of(key))
      settings_.roundup_power2_divisions[std::min<size_t>(*slot_of(key), 15)] = v.unsigned_integer;
    else if (v.kind == PickleKind::kDict && key == "roundup_power2_divisions")
      read_settings(reader, v);
  }
}

Result<TorchSnapshot> SnapshotBuilder::finish(const PickleReader& reader, const PickleValue& root) {
  if (root.kind == PickleKind::kList) {  // PyTorch 1.x: the segments alone
    PLIMSOLL_CHECK(place_segments(reader, root));
  } else if (!root.is_object(kRoot)) {
    return reader.fail_here("is no memory snapshot", "a dict with \"segments\" and \"device_traces\"",
                            "write it with torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")");
  }
  TorchSnapshot snapshot;
  for (auto& [index, trace] : devices_) {
    trace.settings = settings_;
    trace.pools = pools_;
    if (devices_.size() == 1)
      trace.stacks = std::move(stacks_);
    else
      take_own_stacks(trace, stacks_);
    snapshot.devices.push_back(std::move(trace));
  }
  for (const auto& [what, times] : imperfections_)
    snapshot.imperfections.push_back({.what = what, .count = times});
  return snapshot;
}

}  // namespace plimsoll
