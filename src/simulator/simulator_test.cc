// What memory does on programs of a few statements.
#include "simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/caching_heap.h"
#include "allocator/lower_bound_heap.h"
#include "program/text.h"
#include "simulator/exact_peaks.h"
#include "simulator/peak_categories.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

Program parsed(const std::string& text) {
  Result<Program> program = parse_program("plimsoll program 1 complete\n" + text, "test");
  EXPECT_TRUE(program) << program.error().to_text();
  return *std::move(program);
}

// s0 of 1000 bytes is a parameter; the forward makes s1, which stays, and s2, which doesn't.
const std::string kStep = R"(section 0 begin "load"
%0:bf16[500] s0 parameter = Empty()
section 0 end
section 1 begin "forward"
%1:bf16[500] s1 = Silu(%0)
%2:bf16[100] s2 = Empty()
%3:bf16[100] view = View(%2)
%4:bf16[100] = AddInPlace(%3, %3)
free s2 local
section 1 end
section 2 begin "backward"
%5:bf16[100] s3 = Empty()
free s1 saved
free s3 local
section 2 end
play 0 as "load"
play 1 as "fwd1"
play 2 as "bwd1"
play 1 as "fwd2"
play 2 as "bwd2"
)";

TEST(Simulate, LiveBytesAreWholeBlocksAndViewsTakeNone) {
  LowerBoundHeap heap;
  const MemoryTimeline timeline = simulate(parsed(kStep), heap, {.keeps_events = true});
  std::vector<int64_t> starts, peaks, ends;
  for (const PhaseMemory& phase : timeline.phases) {
    starts.push_back(phase.live_start.value);
    peaks.push_back(phase.live_peak.value);
    ends.push_back(phase.live_end.value);
  }
  EXPECT_THAT(starts, ElementsAre(0, 1024, 2048, 1024, 2048));
  EXPECT_THAT(peaks, ElementsAre(1024, 2560, 2560, 2560, 2560));
  EXPECT_THAT(ends, ElementsAre(1024, 2048, 1024, 2048, 1024));
  EXPECT_FALSE(timeline.oom);
}

TEST(Simulate, APeakKnowsItsOpAndWhoWasAlive) {
  const Program program = parsed(kStep);
  LowerBoundHeap heap;
  const MemoryTimeline timeline = simulate(program, heap, {.keeps_events = true});
  const PhaseMemory& forward = timeline.phases[1];
  ASSERT_TRUE(forward.peak_op && forward.peak_event);
  EXPECT_EQ(forward.peak_op->value, 2u);  // the Empty() of s2
  std::vector<uint32_t> alive;
  for (const LiveStorage& live : live_at(timeline, *forward.peak_event)) alive.push_back(live.storage.value);
  EXPECT_THAT(alive, ElementsAre(0, 1, 2));
}

// A storage of a forward is an activation when it outlives it.
TEST(Simulate, ActivationsAreToldFromTemporaries) {
  const Program program = parsed(kStep);
  LowerBoundHeap heap;
  const MemoryTimeline timeline = simulate(program, heap, {.keeps_events = true});
  const auto at_peaks = categories_at_peaks(program, timeline, shown_categories(program, timeline));
  const auto of = [&](Category c) { return at_peaks[1][static_cast<size_t>(c)].value; };
  EXPECT_EQ(of(Category::kParameter), 1024);
  EXPECT_EQ(of(Category::kActivation), 1024);
  EXPECT_EQ(of(Category::kTemporary), 512);
}

TEST(Simulate, WhatDoesNotFitEndsTheRun) {
  LowerBoundHeap heap(Bytes{2048});
  const MemoryTimeline timeline = simulate(parsed(kStep), heap, {.keeps_events = true});
  ASSERT_TRUE(timeline.oom);
  EXPECT_EQ(timeline.phases.size(), 2u);
  EXPECT_EQ(timeline.oom->phase, 1u);
  EXPECT_EQ(timeline.oom->op.value, 2u);
  EXPECT_EQ(timeline.oom->storage, StorageId{2});
  EXPECT_EQ(timeline.oom->details.requested, Bytes{200});
}

std::string one_section(const std::string& statements, const std::string& phase = "fwd1") {
  return "section 0 begin \"all\"\n" + statements + "section 0 end\nplay 0 as \"" + phase + "\"\n";
}

// What could not be had was never alive.
TEST(Simulate, TheRequestThatFailsIsNoEvent) {
  LowerBoundHeap heap(Bytes{1024});
  const MemoryTimeline timeline =
      simulate(parsed(one_section("%0:bf16[256] s0 = Empty()\n%1:bf16[512] s1 = Empty()\nfree s0 local\n")),
               heap, {.keeps_events = true});
  ASSERT_TRUE(timeline.oom);
  ASSERT_EQ(timeline.events.size(), 1u);
  EXPECT_EQ(timeline.events[0].storage, StorageId{0});
  EXPECT_EQ(live_at(timeline, 0).size(), 1u);
  EXPECT_EQ(timeline.is_live_at_end, (std::vector<bool>{true, false}));
}

TEST(Simulate, TheHostIsAnotherLedger) {
  LowerBoundHeap heap;
  const MemoryTimeline timeline =
      simulate(parsed(one_section("%0:bf16[500] s0 gradient host = Empty()\n")), heap);
  EXPECT_EQ(timeline.phases[0].host_peak, Bytes{1000});  // not rounded
  EXPECT_EQ(timeline.phases[0].live_peak, Bytes{0});
}

// Pinned memory is the cache's, in powers of two; the others are counted as they are.
TEST(Simulate, EveryTierIsALedgerOfItsOwn) {
  const Program program =
      parsed(one_section("%0:bf16[500] s0 gradient host = Empty()\n"
                         "%1:bf16[500] s1 gradient host_pinned = Empty()\n"
                         "%2:bf16[700] s2 optimizer_state disk = Empty()\n"
                         "free s1 local\n"
                         "%3:bf16[300] s3 optimizer_state disk = Empty()\n"
                         "free s3 local\n"));
  LowerBoundHeap heap;
  const PhaseMemory phase = simulate(program, heap).phases.at(0);
  EXPECT_EQ(phase.live_peak, Bytes{0});
  EXPECT_EQ(phase.pageable_peak, Bytes{1000});
  EXPECT_EQ(phase.pinned_peak, Bytes{1024});
  EXPECT_EQ(phase.host_peak, Bytes{2024});
  EXPECT_EQ(phase.disk_peak, Bytes{2000});
  EXPECT_EQ(phase.disk_end, Bytes{1400});
  const ExactPeak exact = exact_peaks(program).at(0);
  EXPECT_EQ(exact.device().total, Bytes{0});
  EXPECT_EQ(exact.of(Tier::kHostPinned).total, Bytes{1000});
  EXPECT_EQ(exact.of(Tier::kHost).categories[static_cast<size_t>(Category::kGradient)], Bytes{1000});
  EXPECT_EQ(exact.of(Tier::kDisk).categories[static_cast<size_t>(Category::kOptimizerState)], Bytes{2000});
}

TEST(Simulate, AnEmptyTensorIsNoEvent) {
  LowerBoundHeap heap;
  const MemoryTimeline timeline =
      simulate(parsed(one_section("%0:bf16[0] s0 = Empty()\nfree s0 local\n")), heap, {.keeps_events = true});
  EXPECT_TRUE(timeline.events.empty());
}

// Within the op, on top of what lives: in the heap, not in `live`.
TEST(Simulate, AWorkspaceIsTakenAndGivenBack) {
  const Program program = parsed(one_section("%0:bf16[256] s0 = Empty() workspace=4096\n"));
  LowerBoundHeap heap;
  const PhaseMemory with = simulate(program, heap).phases[0];
  EXPECT_EQ(with.live_peak, Bytes{512});
  EXPECT_EQ(with.workspace_peak, Bytes{512 + 4096});
  EXPECT_EQ(with.allocated_peak, Bytes{512 + 4096});
  EXPECT_EQ(with.allocated_end, Bytes{512});
  LowerBoundHeap other;
  const PhaseMemory without = simulate(program, other, {.workspaces_in_heap = false}).phases[0];
  EXPECT_EQ(without.allocated_peak, Bytes{512});
  EXPECT_EQ(without.workspace_peak, with.workspace_peak);
}

// One a thread and stream: a forward's and an optimizer step's products share one, the backward has its own.
TEST(Simulate, CublasKeepsAWorkspaceForEachThreadAndStream) {
  const auto held = [](const std::string& op, const std::vector<std::string>& phases) {
    std::string text =
        "section 0 begin \"load\"\n%0:bf16[16,16] s0 parameter = Empty()\n"
        "%1:int32[1] s1 input = Empty()\nsection 0 end\nsection 1 begin \"product\"\n%2:bf16[16,16] s2 = " +
        op + "\nfree s2 local\nsection 1 end\nplay 0 as \"load\"\n";
    for (const std::string& phase : phases) text += "play 1 as \"" + phase + "\"\n";
    LowerBoundHeap heap;
    return simulate(parsed(text), heap, {.library_workspace = Bytes{1000}})
        .phases.back()
        .library_workspace.value;
  };
  EXPECT_EQ(held("Mm(%0, %0)", {"fwd1", "fwd2", "step2"}), 1024);
  EXPECT_EQ(held("Mm(%0, %0)", {"fwd1", "bwd1", "bwd2"}), 2 * 1024);
  EXPECT_EQ(held("Mm(%0, %0) on all_gather", {"fwd1"}), 1024);
  EXPECT_EQ(held("GroupedMm(%0, %0, %1)", {"fwd1"}), 0);
}

}  // namespace
}  // namespace plimsoll
