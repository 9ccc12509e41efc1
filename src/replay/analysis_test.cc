#include "replay/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/caching_heap.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

// A run of a heap, recorded as a snapshot would be.
class Recorded {
 public:
  Recorded() : recorder_(trace), heap_({.recorder = &recorder_}) {}

  BlockId alloc(Bytes size) { return *heap_.alloc(size, kDefaultStream); }
  void free(BlockId block) { heap_.free(block); }
  HeapStats stats() const { return heap_.stats(); }
  const AllocationTrace& dumped() {
    trace.segments = heap_.segments();
    return trace;
  }
  // As a ring buffer that has lost its first events.
  AllocationTrace without_first(size_t events) {
    AllocationTrace cut = dumped();
    cut.events.erase(cut.events.begin(), cut.events.begin() + static_cast<std::ptrdiff_t>(events));
    return cut;
  }
  AllocationTrace trace;

 private:
  AllocationRecorder recorder_;
  CachingHeap heap_;
};

void run(Recorded& r) {
  const BlockId weights = r.alloc(kMiB * 30);
  const BlockId a = r.alloc(kMiB * 12), b = r.alloc(kMiB * 7);
  r.free(a);
  r.alloc(kMiB * 5);
  r.free(b);
  r.alloc(Bytes{1000});
  static_cast<void>(weights);
}

TEST(Analysis, PeaksAreTheHeaps) {
  Recorded r;
  run(r);
  const Result<SnapshotAnalysis> a = analyze(r.dumped());
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_EQ(a->allocated.value, r.stats().allocated.peak);
  EXPECT_EQ(a->reserved.value, r.stats().reserved.peak);
  EXPECT_EQ(a->at_dump.allocated, r.stats().allocated.current);
  EXPECT_EQ(a->replay.same_address, a->replay.allocations);
  EXPECT_FALSE(a->replay.first_divergence);
}

TEST(Analysis, BlocksAtThePeakAddUpToIt) {
  Recorded r;
  run(r);
  for (size_t lost = 0; lost < r.trace.events.size(); ++lost) {
    const AllocationTrace cut = r.without_first(lost);
    const Result<SnapshotAnalysis> a = analyze(cut);
    ASSERT_TRUE(a);
    Bytes sum;
    for (const LiveBlock& block : a->at_peak) sum += block.bytes;
    EXPECT_EQ(sum, a->allocated.value) << lost;
    EXPECT_EQ(a->replay.same_address, a->replay.allocations) << lost;
    EXPECT_EQ(a->fragmentation.allocated, a->allocated.value) << lost;
    EXPECT_EQ(a->fragmentation.cached + a->fragmentation.stranded,
              a->fragmentation.reserved - a->fragmentation.allocated);
  }
}

// It is active, and no longer allocated.
TEST(Analysis, ABlockThatWaitsHoldsNothingOfThePeak) {
  AllocationTrace trace;
  TraceSegment segment{.address = uint64_t{0x7f} << 40, .bytes = kMiB * 20, .is_large = true};
  const uint64_t waiting = segment.address + (uint64_t{4} << 20);
  segment.blocks = {
      {.address = segment.address, .bytes = kMiB * 4, .requested = kMiB * 4, .state = BlockState::kAllocated},
      {.address = waiting, .bytes = kMiB * 6, .requested = kMiB * 6, .state = BlockState::kPendingFree},
      {.address = waiting + (uint64_t{6} << 20), .bytes = kMiB * 10}};
  trace.segments = {segment};
  const Result<SnapshotAnalysis> a = analyze(trace);
  ASSERT_TRUE(a);
  EXPECT_EQ(a->allocated.value, kMiB * 4);
  EXPECT_EQ(a->active.value, kMiB * 10);
  ASSERT_EQ(a->at_peak.size(), 1U);
  EXPECT_EQ(a->at_peak[0].address, segment.address);
}

// Of a block from before the trace only its free has a stack.
TEST(Analysis, StacksOfFreesAreTold) {
  AllocationTrace trace;
  const StackId asked = trace.stacks.add({{.name = "asked"}}), freed = trace.stacks.add({{.name = "freed"}});
  AllocationRecorder recorder(trace);
  CachingHeap heap({.recorder = &recorder});
  const auto free = [&](BlockId block, StackId stack) {
    recorder.set_stack(stack);
    heap.free(block);
  };
  recorder.set_stack(asked);
  const BlockId early = *heap.alloc(kMiB * 3, kDefaultStream), kept = *heap.alloc(kMiB * 2, kDefaultStream);
  const size_t lost = trace.events.size();
  const BlockId late = *heap.alloc(kMiB, kDefaultStream);
  free(early, freed);
  free(late, freed);
  static_cast<void>(kept);
  trace.segments = heap.segments();
  trace.events.erase(trace.events.begin(), trace.events.begin() + static_cast<std::ptrdiff_t>(lost));
  const Result<SnapshotAnalysis> analysis = analyze(trace);
  ASSERT_TRUE(analysis) << analysis.error().to_text();
  ASSERT_EQ(analysis->at_peak.size(), 3);
  EXPECT_TRUE(analysis->at_peak[0].is_stack_of_free);
  EXPECT_FALSE(analysis->at_peak[1].is_stack_of_free);
  EXPECT_FALSE(analysis->at_peak[2].is_stack_of_free);

  // With stacks of allocs only, a free repeats its alloc's.
  for (AllocationEvent& event : trace.events) event.stack = asked;
  const Result<SnapshotAnalysis> of_allocs = analyze(trace);
  ASSERT_TRUE(of_allocs);
  EXPECT_FALSE(of_allocs->at_peak[0].is_stack_of_free);
}

TEST(Analysis, TheSameSettingsGiveTheSameReserved) {
  Recorded r;
  run(r);
  const Result<SnapshotAnalysis> a = analyze(r.dumped(), {.what_if = {"", "expandable_segments:True"}});
  ASSERT_TRUE(a);
  ASSERT_EQ(a->what_if.size(), 3U);
  EXPECT_TRUE(a->what_if[0].is_as_recorded);
  EXPECT_FALSE(a->what_if[1].is_as_recorded);
  EXPECT_EQ(a->what_if[0].peak_reserved, r.stats().reserved.peak);
  EXPECT_EQ(a->what_if[1].peak_reserved, r.stats().reserved.peak);
  EXPECT_LE(a->what_if[2].peak_reserved, r.stats().reserved.peak);
  EXPECT_FALSE(a->what_if[0].out_of_memory);
}

TEST(Analysis, ACapacityTellsWhereItRunsOut) {
  Recorded r;
  run(r);
  const Result<SnapshotAnalysis> a = analyze(r.dumped(), {.capacity = kMiB * 45});
  ASSERT_TRUE(a);
  ASSERT_EQ(a->what_if.size(), 1U);
  EXPECT_EQ(a->what_if[0].capacity, kMiB * 45);
  ASSERT_TRUE(a->what_if[0].out_of_memory);
  EXPECT_EQ(a->what_if[0].out_of_memory->requested, kMiB * 7);
  ASSERT_TRUE(a->what_if[0].out_of_memory_at);
  EXPECT_EQ(r.trace.events[*a->what_if[0].out_of_memory_at].bytes, kMiB * 7);
}

TEST(Analysis, ErrorsOfTheTraceNameItsFile) {
  AllocationTrace trace;
  for (uint64_t stream = 0; stream <= 1000; ++stream)
    trace.events.push_back({.address = 4096, .bytes = kMiB, .stream = stream});
  const Result<SnapshotAnalysis> streams = analyze(trace, {.file = "a.pickle"});
  ASSERT_FALSE(streams);
  EXPECT_THAT(streams.error().to_text(), HasSubstr("a.pickle: the trace has 1001 streams"));
  trace.settings.text = "backend::native";
  const Result<SnapshotAnalysis> settings = analyze(trace, {.file = "a.pickle"});
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().to_text(), HasSubstr("a.pickle, PYTORCH_CUDA_ALLOC_CONF:1:"));
}

// Four of five segments are cached when the last one is taken.
AllocationTrace with_much_idle() {
  Recorded r;
  for (int i = 0; i < 4; ++i) r.free(r.alloc(kMiB * (100 + 20 * i)));
  r.alloc(kMiB * 200);
  return r.dumped();
}

TEST(Analysis, MuchIdleMemorySuggestsExpandableSegments) {
  const AllocationTrace trace = with_much_idle();
  const Result<SnapshotAnalysis> a = analyze(trace, {.suggests_up_to = trace.events.size()});
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_EQ(a->idle_at_reserved_peak, kMiB * (100 + 120 + 140 + 160));
  ASSERT_EQ(a->what_if.size(), 2);
  EXPECT_TRUE(a->what_if[1].is_suggested);
  EXPECT_EQ(a->what_if[0].peak_reserved, kMiB * 720);
  EXPECT_EQ(a->what_if[1].peak_reserved, kMiB * 200);
  EXPECT_TRUE(analyze(trace, {.suggests_up_to = trace.events.size() - 1})->what_if.empty());
  EXPECT_TRUE(analyze(trace)->what_if.empty());
  Recorded small;
  run(small);
  EXPECT_TRUE(analyze(small.dumped(), {.suggests_up_to = 1000})->what_if.empty());
}

TEST(Analysis, ARecordedFailureIsToldWithItsMoment) {
  Recorded r;
  r.alloc(kMiB * 30);
  AllocationTrace trace = r.dumped();
  const StackFrame line{.name = "f", .filename = "/home/me/model.py", .line = 3};
  trace.events.push_back({.action = AllocationAction::kOutOfMemory,
                          .stack = trace.stacks.add({line}),
                          .address = static_cast<uint64_t>((kMiB * 5).value),
                          .bytes = kMiB * 64});
  const Result<SnapshotAnalysis> a = analyze(trace);
  ASSERT_TRUE(a) << a.error().to_text();
  ASSERT_EQ(a->out_of_memory.size(), 1);
  const RecordedOutOfMemory& failure = a->out_of_memory[0];
  EXPECT_EQ(failure.event, trace.events.size() - 1);
  EXPECT_EQ(failure.requested, kMiB * 64);
  EXPECT_EQ(failure.allocated, kMiB * 30);
  EXPECT_EQ(failure.reserved, kMiB * 30);
  EXPECT_EQ(failure.device_free, kMiB * 5);
  EXPECT_EQ(trace.stacks.frame(*failure.frame), line);
  // On a larger device the same request is served.
  const Result<SnapshotAnalysis> larger = analyze(trace, {.capacity = kGiB});
  EXPECT_EQ(larger->what_if[0].served_failures, 1);
  EXPECT_FALSE(larger->what_if[0].out_of_memory);
}

TEST(Analysis, AFractionNeedsACapacity) {
  Recorded r;
  run(r);
  const std::vector<std::string> half = {"per_process_memory_fraction:0.5"};
  const Result<SnapshotAnalysis> alone = analyze(r.dumped(), {.what_if = half});
  ASSERT_TRUE(alone) << alone.error().to_text();
  ASSERT_EQ(alone->what_if[1].without_effect.size(), 1);
  EXPECT_THAT(alone->what_if[1].without_effect[0], HasSubstr("per_process_memory_fraction without"));
  const Result<SnapshotAnalysis> with = analyze(r.dumped(), {.what_if = half, .capacity = kMiB * 80});
  ASSERT_TRUE(with);
  EXPECT_TRUE(with->what_if[1].without_effect.empty());
  EXPECT_TRUE(with->what_if[1].out_of_memory);
}

TEST(Analysis, AWrongConfigurationIsRefused) {
  Recorded r;
  run(r);
  const Result<SnapshotAnalysis> a = analyze(r.dumped(), {.what_if = {"expandable_segmnts:True"}});
  ASSERT_FALSE(a);
  EXPECT_THAT(a.error().to_text(), HasSubstr("expandable_segmnts"));
}

}  // namespace
}  // namespace plimsoll
