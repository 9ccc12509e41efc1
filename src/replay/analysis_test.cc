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

TEST(Analysis, AWrongConfigurationIsRefused) {
  Recorded r;
  run(r);
  const Result<SnapshotAnalysis> a = analyze(r.dumped(), {.what_if = {"expandable_segmnts:True"}});
  ASSERT_FALSE(a);
  EXPECT_THAT(a.error().to_text(), HasSubstr("expandable_segmnts"));
}

}  // namespace
}  // namespace plimsoll
