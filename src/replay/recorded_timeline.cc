#include "replay/recorded_timeline.h"

#include <algorithm>
#include <map>

#include "allocator/replay.h"
#include "replay/recorded_settings.h"

namespace plimsoll {
namespace {

constexpr Nanoseconds kUntimed{1000};  // an event without a time

class Writer final : public ReplayObserver {
 public:
  explicit Writer(const AllocationTrace& trace) : trace_(trace) {
    const bool has_times = !trace.events.empty() && trace.events.front().time;
    if (has_times) origin_ = *trace.events.front().time;
    write_annotations();
    if (std::ranges::any_of(trace.events, is_segment)) segments_ = timeline.add_track("segments");
  }

  void before_events(const CachingHeap& heap) override { sample(Nanoseconds{0}, heap); }
  void after_event(size_t event, const CachingHeap& heap) override {
    const AllocationEvent& e = trace_.events[event];
    const Nanoseconds untimed = kUntimed * static_cast<int64_t>(event + 1);
    now_ = std::max(now_, e.time ? *e.time - origin_ : untimed);  // threads may record out of order
    sample(now_, heap);
    if (segments_ && is_segment(e))
      timeline.slices.push_back({.name = timeline.add_name(name_of(e)), .track = *segments_, .begin = now_});
  }

  Timeline timeline;

 private:
  static bool is_segment(const AllocationEvent& e) {
    switch (e.action) {
      case AllocationAction::kSegmentAlloc:
      case AllocationAction::kSegmentFree:
      case AllocationAction::kSegmentMap:
      case AllocationAction::kSegmentUnmap:
      case AllocationAction::kOutOfMemory:
        return true;
      default:
        return false;
    }
  }
  static std::string name_of(const AllocationEvent& e) {
    const std::string size = " " + to_text(e.bytes);
    switch (e.action) {
      case AllocationAction::kSegmentAlloc:
        return "segment_alloc" + size;
      case AllocationAction::kSegmentFree:
        return "segment_free" + size;
      case AllocationAction::kSegmentMap:
        return "segment_map" + size;
      case AllocationAction::kSegmentUnmap:
        return "segment_unmap" + size;
      default:
        return "out of memory: a request of" + size;
    }
  }

  void sample(Nanoseconds at, const CachingHeap& heap) {
    const BytesInUse in_use = heap.in_use();
    const MemorySample now{
        .time = at, .allocated = in_use.allocated, .active = in_use.active, .reserved = in_use.reserved};
    if (!timeline.memory.empty() && timeline.memory.back().time == at)
      timeline.memory.back() = now;
    else
      timeline.memory.push_back(now);
  }

  // A name's begin and its next end; what never ends lasts until the trace does.
  void write_annotations() {
    if (trace_.annotations.empty()) return;
    const TrackId track = timeline.add_track("annotations");
    std::map<std::string, std::vector<Nanoseconds>> open;
    const auto add = [&](const std::string& name, Nanoseconds begin, Nanoseconds end) {
      begin = std::max(begin - origin_, Nanoseconds{0});
      timeline.slices.push_back({.name = timeline.add_name(name),
                                 .track = track,
                                 .begin = begin,
                                 .duration = std::max(end - origin_ - begin, Nanoseconds{0})});
    };
    for (const TraceAnnotation& a : trace_.annotations) {
      if (!a.is_end) {
        open[a.name].push_back(a.time);
      } else if (auto& begins = open[a.name]; !begins.empty()) {
        add(a.name, begins.back(), a.time);
        begins.pop_back();
      }
    }
    const bool has_end = !trace_.events.empty() && trace_.events.back().time;
    const Nanoseconds last = has_end ? *trace_.events.back().time : Nanoseconds{0};
    for (const auto& [name, begins] : open)
      for (Nanoseconds begin : begins) add(name, begin, std::max(begin, last));
  }

  const AllocationTrace& trace_;
  Nanoseconds origin_, now_;
  std::optional<TrackId> segments_;
};

}  // namespace

Result<Timeline> recorded_timeline(const AllocationTrace& trace) {
  PLIMSOLL_TRY(settings, settings_of(trace.settings));
  Writer writer(trace);
  PLIMSOLL_CHECK(replay(trace, settings, &writer));
  return std::move(writer.timeline);
}

}  // namespace plimsoll
