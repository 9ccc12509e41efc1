#include "estimate/recording.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "allocator/allocator_settings.h"
#include "allocator/caching_heap.h"
#include "estimate/device_parts.h"
#include "trace/simulated_stack.h"

namespace plimsoll {
namespace {

constexpr Nanoseconds kOpTime{1000};

// REQUIRES the run's settings were parsed before.
AllocatorSettings settings_of(const EstimateRun& run) {
  return *parse_allocator_settings(run.estimate.job.allocator.configuration, "allocator.configuration");
}

// The one that the run's timeline is of.
SimulatedDevice device_of(const EstimateRun& run) {
  if (!run.available) return SimulatedDevice();
  return SimulatedDevice(run.available, run.estimate.gpu.usable_memory);
}

SimulateOptions options_for(const EstimateRun& run, RunObserver& observer) {
  return {.library_workspace = library_workspace(run.estimate.gpu, run.estimate.job), .observer = &observer};
}

class StackSetter final : public RunObserver {
 public:
  StackSetter(const Program& program, AllocationTrace& trace, AllocationRecorder& recorder)
      : p_(program), trace_(trace), recorder_(recorder) {}

  void begin_phase(const std::string& name) override {
    end_phase();
    recorder_.set_time(now_);
    trace_.annotations.push_back({.time = now_, .name = name});
  }
  // At a time of its own: what a phase without ops frees is of none other.
  void end_phase() {
    if (trace_.annotations.empty()) return;
    now_ += kOpTime;
    trace_.annotations.push_back({.time = now_, .name = trace_.annotations.back().name, .is_end = true});
  }
  void begin_op(OpId id) override {
    const Op& op = p_.op(id);
    op_ = {op.kind, op.module};
    set_stack(std::nullopt);
    recorder_.set_time(now_);
    now_ += kOpTime;
  }
  void before_alloc(Category category) override { set_stack(category); }
  void after_statement() override { set_stack(std::nullopt); }

 private:
  struct OpInModule {
    OpKind kind = OpKind::kView;
    ModuleId module;
  };

  // Of the op alone, or of what it allocates.
  void set_stack(std::optional<Category> category) {
    const auto [found, is_new] = stacks_.try_emplace({op_.kind, op_.module.value, category}, 0);
    if (is_new) found->second = add_stack(category);
    recorder_.set_stack(found->second);
  }
  StackId add_stack(std::optional<Category> category) {
    const StackFrame op = simulated_frame(aten_name_of(op_.kind), p_.module_name(op_.module));
    return category ? trace_.stacks.add({op, category_frame(name_of(*category))}) : trace_.stacks.add({op});
  }

  const Program& p_;
  AllocationTrace& trace_;
  AllocationRecorder& recorder_;
  std::map<std::tuple<OpKind, uint32_t, std::optional<Category>>, StackId> stacks_;
  OpInModule op_;
  Nanoseconds now_;
};

class TimelineWriter final : public RunObserver {
 public:
  TimelineWriter(const Program& program, const Heap& heap, Timeline& timeline)
      : p_(program), heap_(heap), timeline_(timeline) {
    phase_track_ = timeline_.add_track("phases");
  }

  void begin_phase(const std::string& name) override {
    end_phase();
    timeline_.slices.push_back(
        {.name = timeline_.add_name(name), .track = phase_track_, .begin = now_, .duration = Nanoseconds{0}});
    phase_slice_ = timeline_.slices.size() - 1;
  }
  void end_phase() {
    if (phase_slice_) timeline_.slices[*phase_slice_].duration = now_ - timeline_.slices[*phase_slice_].begin;
  }
  void begin_op(OpId id) override {
    const Op& op = p_.op(id);
    timeline_.slices.push_back({.name = timeline_.add_name(std::string(aten_name_of(op.kind))),
                                .owner = timeline_.add_name(p_.module_name(op.module)),
                                .track = track_of(op.stream),
                                .begin = now_,
                                .duration = kOpTime});
    now_ += kOpTime;
  }
  void after_statement() override {
    const HeapStats stats = heap_.stats();
    const MemorySample sample{.time = now_,
                              .allocated = stats.allocated.current,
                              .active = stats.active.current,
                              .reserved = stats.reserved.current};
    if (!timeline_.memory.empty() && timeline_.memory.back().time == now_)
      timeline_.memory.back() = sample;
    else
      timeline_.memory.push_back(sample);
  }

 private:
  TrackId track_of(Stream stream) {
    const auto [found, is_new] = tracks_.try_emplace(stream, 0);
    if (is_new) found->second = timeline_.add_track(std::string(name_of(stream)) + " stream");
    return found->second;
  }

  const Program& p_;
  const Heap& heap_;
  Timeline& timeline_;
  TrackId phase_track_ = 0;
  std::optional<size_t> phase_slice_;
  std::map<Stream, TrackId> tracks_;
  Nanoseconds now_;
};

}  // namespace

AllocationTrace record_snapshot(const EstimateRun& run) {
  AllocationTrace trace;
  AllocationRecorder recorder(trace);
  const AllocatorSettings settings = settings_of(run);
  SimulatedDevice device = device_of(run);
  CachingHeap heap({.settings = settings, .device = &device, .recorder = &recorder});
  StackSetter stacks(run.program, trace, recorder);
  simulate(run.program, heap, options_for(run, stacks));
  stacks.end_phase();
  trace.segments = heap.segments();
  trace.settings = to_recorded(settings, run.estimate.job.allocator.configuration);
  return trace;
}

Timeline record_timeline(const EstimateRun& run) {
  Timeline timeline;
  SimulatedDevice device = device_of(run);
  CachingHeap heap({.settings = settings_of(run), .device = &device});
  TimelineWriter writer(run.program, heap, timeline);
  simulate(run.program, heap, options_for(run, writer));
  writer.end_phase();
  return timeline;
}

}  // namespace plimsoll
