#include "replay/give_backs.h"

#include <algorithm>

#include "base/block.h"

namespace plimsoll {
namespace {

using Action = AllocationAction;

bool gives_back(const AllocationEvent& e) {
  return e.action == Action::kSegmentFree || e.action == Action::kSegmentUnmap;
}
bool grows(const AllocationEvent& e) {
  return e.action == Action::kSegmentAlloc || e.action == Action::kSegmentMap;
}
bool is_of_device(const AllocationEvent& e) {
  return gives_back(e) || grows(e) || e.action == Action::kOutOfMemory;
}
// Events that come in between and say nothing: malloc() waits for streams before it gives back.
bool is_silent(const AllocationEvent& e) {
  return e.action == Action::kFreeCompleted || e.action == Action::kSnapshot ||
         e.action == Action::kUserDefined;
}

constexpr Bytes kSmallRequest = kMiB, kSmallSegment = kMiB * 2, kLargeSegment = kMiB * 20;

// What malloc() asks the device for.
Bytes segment_for(Bytes request) {
  if (request <= kSmallRequest) return kSmallSegment;
  if (request < kMiB * 10) return kLargeSegment;
  return Bytes{(request.value + kSmallSegment.value - 1) / kSmallSegment.value * kSmallSegment.value};
}

class Finder {
 public:
  explicit Finder(const AllocationTrace& trace) : trace_(trace) {
    for (const TraceSegment& segment : trace.segments) at_start_ += segment.bytes;
    for (size_t i = 0; i < trace.events.size(); ++i)
      if (is_of_device(trace.events[i])) moments_.push_back(i);
    for (size_t i : moments_) at_start_ -= change(trace.events[i]);
    Bytes now = at_start_;
    highest_ = now;
    for (size_t i : moments_) highest_ = std::max(highest_, now += change(trace.events[i]));
  }

  GiveBacks run() {
    Bytes reserved = at_start_;
    for (size_t m = 0; m < moments_.size(); ++m) {
      const AllocationEvent& event = trace_.events[moments_[m]];
      if (event.action == Action::kOutOfMemory) learn_from_error(event, reserved);
      if (gives_back(event)) {
        found_.all.push_back(run_at(moments_[m], reserved));
        learn_from(found_.all.back());
        for (; moments_[m] < found_.all.back().last; ++m) reserved += change(trace_.events[moments_[m]]);
      }
      reserved += change(trace_.events[moments_[m]]);
    }
    return std::move(found_);
  }

 private:
  static Bytes change(const AllocationEvent& e) {
    if (grows(e)) return e.bytes;
    return gives_back(e) ? Bytes{} - e.bytes : Bytes{};
  }

  GiveBack run_at(size_t first, Bytes reserved) const {
    GiveBack g{.first = first, .reserved = reserved};
    size_t next = first;
    for (; next < trace_.events.size(); ++next) {
      const AllocationEvent& event = trace_.events[next];
      if (is_silent(event)) continue;
      if (!gives_back(event)) break;
      g.last = next;
      ++g.segments;
      g.bytes += event.bytes;
    }
    explain(g, next < trace_.events.size() ? &trace_.events[next] : nullptr);
    return g;
  }

  void explain(GiveBack& g, const AllocationEvent* next) const {
    const auto& stack = trace_.events[g.first].stack;
    if (stack && is_empty_cache(*stack)) return;
    if (next && next->action == Action::kOutOfMemory) {
      g.wanted = segment_for(next->bytes);
      g.reason = GiveBackReason::kOutOfMemory;
      return;
    }
    if (!next || !grows(*next)) return;
    g.wanted = next->bytes;
    if (stack) {
      if (stack == next->stack) g.reason = why_malloc_did(g);
      return;
    }
    g.is_certain = false;
    if (would_have_served(g, next)) return;
    if (g.reserved + *g.wanted > highest_) g.reason = why_malloc_did(g);
  }

  // The alloc behind new memory.
  const AllocationEvent* request_behind(const AllocationEvent* growth) const {
    const AllocationEvent* const end = trace_.events.data() + trace_.events.size();
    while (growth != end && (grows(*growth) || is_silent(*growth))) ++growth;
    return growth != end && growth->action == Action::kAlloc ? growth : nullptr;
  }

  bool would_have_served(const GiveBack& g, const AllocationEvent* growth) const {
    const AllocationEvent* const request = request_behind(growth);
    if (request == nullptr || request->bytes <= kSmallRequest || trace_.settings.max_split_size) return false;
    return std::any_of(trace_.events.data() + g.first, trace_.events.data() + g.last + 1, [&](const auto& e) {
      return e.action == Action::kSegmentFree && e.bytes > kSmallSegment && e.bytes >= request->bytes &&
             e.stream == request->stream && e.pool == request->pool;
    });
  }

  bool is_empty_cache(StackId stack) const {
    return std::ranges::any_of(trace_.stacks.frames_of(stack), [&](FrameId f) {
      const std::string& name = trace_.stacks.frame(f).name;
      return name == "empty_cache" || name.find("emptyCache") != std::string::npos;
    });
  }

  GiveBackReason why_malloc_did(const GiveBack& g) const {
    Bytes least = g.bytes;
    for (size_t i = g.first; i <= g.last; ++i)
      if (gives_back(trace_.events[i])) least = std::min(least, trace_.events[i].bytes);
    const RecordedSettings& settings = trace_.settings;
    if (settings.garbage_collection_threshold > 0 && least > kSmallSegment)
      return GiveBackReason::kGarbageCollection;
    if (settings.max_split_size && least >= *settings.max_split_size) return GiveBackReason::kOversize;
    return GiveBackReason::kDeviceFull;
  }

  // ---- how much there was

  void learn_from(const GiveBack& g) {
    if (g.reason == GiveBackReason::kDeviceFull || g.reason == GiveBackReason::kOversize)
      limit(g.reserved + *g.wanted);
  }
  void learn_from_error(const AllocationEvent& error, Bytes reserved) {
    const Bytes wanted = segment_for(error.bytes);
    const Bytes device_free{static_cast<int64_t>(std::min<uint64_t>(error.address, kMaxQuantity - 1))};
    limit(reserved + wanted);
    if (device_free >= wanted) return;  // it wasn't the device that refused, but a limit on the process
    is_exact_ = true;
    found_.limit->at_least = std::max(found_.limit->at_least, reserved + device_free);
    found_.limit->below.reset();
  }
  // Memory up to this level was refused.
  void limit(Bytes refused) {
    if (!found_.limit) found_.limit = {.at_least = highest_};
    std::optional<Bytes>& below = found_.limit->below;
    if (!is_exact_) below = std::max(std::min(below.value_or(refused), refused), highest_ + Bytes{1});
  }

  const AllocationTrace& trace_;
  std::vector<size_t> moments_;  // events that are of the device
  Bytes at_start_, highest_;
  bool is_exact_ = false;
  GiveBacks found_;
};

}  // namespace

const GiveBack* GiveBacks::at(size_t event) const {
  const auto after = std::ranges::upper_bound(all, event, {}, &GiveBack::first);
  return after != all.begin() && event <= std::prev(after)->last ? &*std::prev(after) : nullptr;
}

GiveBacks find_give_backs(const AllocationTrace& trace) { return Finder(trace).run(); }

int64_t num_retries(const GiveBacks& given_back) {
  return std::ranges::count_if(given_back.all, [](const GiveBack& g) {
    return g.reason == GiveBackReason::kDeviceFull || g.reason == GiveBackReason::kOutOfMemory;
  });
}

}  // namespace plimsoll
