#include "replay/give_backs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/caching_heap.h"
#include "allocator/device_memory.h"
#include "replay/analysis.h"

namespace plimsoll {
namespace {

using ::testing::SizeIs;

// A heap on a device of 100 MiB, recorded.
class Recorded {
 public:
  explicit Recorded(AllocatorSettings settings = {})
      : recorder_(trace_), heap_({.settings = settings, .device = &device_, .recorder = &recorder_}) {
    trace_.settings.max_split_size = settings.max_split_size;
  }

  BlockId alloc(Bytes size, const std::string& function = "") {
    set_stack(function);
    return *heap_.alloc(size, kDefaultStream);
  }
  void fail(Bytes size) { EXPECT_FALSE(heap_.alloc(size, kDefaultStream)); }
  void free(BlockId block) { heap_.free(block); }
  void empty_cache(const std::string& function = "") {
    set_stack(function);
    heap_.empty_cache();
  }
  AllocationTrace& dumped() {
    trace_.segments = heap_.segments();
    return trace_;
  }

 private:
  void set_stack(const std::string& function) {
    recorder_.set_stack(std::nullopt);
    if (!function.empty())
      recorder_.set_stack(trace_.stacks.add({{.name = function, .filename = "a.py", .line = 1}}));
  }

  AllocationTrace trace_;
  AllocationRecorder recorder_;
  SimulatedDevice device_{kMiB * 100};
  CachingHeap heap_;
};

// 60 MiB cached, 40 needed and not to be had without them.
void fill(Recorded& r, const std::string& function) {
  r.alloc(kMiB * 30, function);
  r.free(r.alloc(kMiB * 60, function));
  r.alloc(kMiB * 62, function);
}

TEST(GiveBacks, AFullDevice) {
  for (const std::string function : {"", "forward"}) {
    Recorded r;
    fill(r, function);
    const GiveBacks found = find_give_backs(r.dumped());
    ASSERT_THAT(found.all, SizeIs(1));
    const GiveBack& g = found.all[0];
    EXPECT_EQ(g.reason, GiveBackReason::kDeviceFull);
    EXPECT_EQ(g.is_certain, !function.empty());
    EXPECT_EQ(g.bytes, kMiB * 60);
    EXPECT_EQ(g.reserved, kMiB * 90);
    EXPECT_EQ(g.wanted, kMiB * 62);
    ASSERT_TRUE(found.limit);
    EXPECT_EQ(found.limit->at_least, kMiB * 92);
    EXPECT_EQ(found.limit->below, kMiB * 152);
    EXPECT_EQ(found.at(g.first), &g);
    EXPECT_EQ(found.at(g.first - 1), nullptr);
    EXPECT_EQ(found.at(g.last + 1), nullptr);
  }
}

TEST(GiveBacks, TheProgramAsked) {
  Recorded named;  // right before a request, where only the stack tells
  named.alloc(kMiB * 30, "forward");
  named.free(named.alloc(kMiB * 60, "forward"));
  named.empty_cache("empty_cache");
  named.alloc(kMiB * 62, "forward");
  Recorded alone;
  const BlockId rest = alone.alloc(kMiB * 30);
  alone.free(alone.alloc(kMiB * 60));
  alone.empty_cache();
  alone.free(rest);
  Recorded not_full;  // what was wanted then was had later
  not_full.free(not_full.alloc(kMiB * 20));
  not_full.empty_cache();
  not_full.alloc(kMiB * 50);
  not_full.alloc(kMiB * 40);
  Recorded served;  // what went would have served the request
  served.alloc(kMiB * 30);
  served.free(served.alloc(kMiB * 60));
  served.empty_cache();
  served.alloc(kMiB * 60);
  for (Recorded* r : {&named, &alone, &not_full, &served}) {
    const GiveBacks found = find_give_backs(r->dumped());
    ASSERT_THAT(found.all, SizeIs(1));
    EXPECT_EQ(found.all[0].reason, GiveBackReason::kProgram);
    EXPECT_FALSE(found.limit);
  }
}

TEST(GiveBacks, AnErrorSaysHowMuchThereWas) {
  Recorded r;
  r.alloc(kMiB * 30);
  r.free(r.alloc(kMiB * 60));
  r.fail(kMiB * 80);
  const GiveBacks found = find_give_backs(r.dumped());
  ASSERT_THAT(found.all, SizeIs(1));
  EXPECT_EQ(found.all[0].reason, GiveBackReason::kOutOfMemory);
  ASSERT_TRUE(found.limit);
  EXPECT_EQ(found.limit->at_least, kMiB * 100);
  EXPECT_FALSE(found.limit->below);
}

TEST(GiveBacks, AnErrorByALimitOnTheProcessSaysLess) {
  Recorded r;
  r.alloc(kMiB * 30);
  r.fail(kMiB * 80);
  AllocationTrace trace = r.dumped();
  trace.events.back().address = static_cast<uint64_t>(kGiB.value);  // the device had a lot
  const GiveBacks found = find_give_backs(trace);
  ASSERT_TRUE(found.limit);
  EXPECT_EQ(found.limit->at_least, kMiB * 30);
  EXPECT_EQ(found.limit->below, kMiB * 110);
}

TEST(GiveBacks, AnOversizeSegment) {
  Recorded r({.max_split_size = kMiB * 50});
  fill(r, "forward");
  const GiveBacks found = find_give_backs(r.dumped());
  ASSERT_THAT(found.all, SizeIs(1));
  EXPECT_EQ(found.all[0].reason, GiveBackReason::kOversize);
}

TEST(GiveBacks, GarbageIsCollectedBySettings) {
  Recorded r;
  fill(r, "forward");
  AllocationTrace trace = r.dumped();
  trace.settings.garbage_collection_threshold = 0.8;
  EXPECT_EQ(find_give_backs(trace).all.at(0).reason, GiveBackReason::kGarbageCollection);
}

TEST(GiveBacks, TheSameSettingsOnTheRecordedDeviceDoTheSame) {
  Recorded r;
  fill(r, "");
  const Result<SnapshotAnalysis> a = analyze(r.dumped(), {.what_if = {""}});
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_TRUE(a->what_if[0].is_capacity_recorded);
  EXPECT_EQ(a->what_if[0].capacity, kMiB * 92);
  EXPECT_EQ(a->what_if[0].peak_reserved, a->reserved.value);
  EXPECT_EQ(a->what_if[0].retries, 1);
  EXPECT_FALSE(a->what_if[0].out_of_memory);
}

TEST(GiveBacks, TheRequestThatFailedIsTriedUnderOtherSettings) {
  Recorded r;  // 40 MiB are free, in two segments
  const BlockId first = r.alloc(kMiB * 40), second = r.alloc(kMiB * 42);
  r.free(first);
  r.free(second);
  r.alloc(kMiB * 12);
  r.alloc(kMiB * 30);
  r.fail(kMiB * 38);
  const Result<SnapshotAnalysis> a = analyze(r.dumped(), {.what_if = {"", "expandable_segments:True"}});
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_EQ(a->what_if[0].out_of_memory_at, r.dumped().events.size() - 1);
  EXPECT_FALSE(a->what_if[2].out_of_memory);
  const Result<SnapshotAnalysis> larger = analyze(r.dumped(), {.what_if = {""}, .capacity = kGiB});
  ASSERT_TRUE(larger);
  EXPECT_FALSE(larger->what_if[0].out_of_memory);
  EXPECT_FALSE(larger->what_if[0].is_capacity_recorded);
}

}  // namespace
}  // namespace plimsoll
