#include "estimate/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of 80 GiB the allocator may take 78; 200 GiB of host memory for each of 8 ranks.
constexpr Machine kMachine{.usable = kGiB * 80,
                           .allocator_limit = kGiB * 78,
                           .host_of_rank = kGiB * 200,
                           .host_of_node = kGiB * 1600,
                           .ranks_per_node = 8};
constexpr Demand kUsual{.device = kGiB * 60, .wanted = kGiB * 60, .minimum = kGiB * 56, .host = kGiB * 100};

Demand taking(Bytes device) {
  Demand demand = kUsual;
  demand.device = demand.wanted = device;
  return demand;
}

TEST(Verdict, FitsWhenTheMarginIsLeft) {
  const Verdict verdict = judge(kMachine, kUsual, {});
  EXPECT_EQ(verdict.gpu, Fit::kFits);
  EXPECT_EQ(verdict.host, Fit::kFits);
  EXPECT_TRUE(verdict.reasons.empty());
  EXPECT_EQ(verdict.to_fit, Bytes{0});
}

// 2 % of 80 GiB are 1.6.
TEST(Verdict, LessThanTheMarginIsARiskAndSaysWhatIsMissing) {
  EXPECT_EQ(judge(kMachine, taking(kGiB * 78), {}).gpu, Fit::kFits);
  const Verdict verdict = judge(kMachine, taking(kGiB * 79), {});
  EXPECT_EQ(verdict.gpu, Fit::kAtRisk);
  EXPECT_THAT(verdict.reasons, ElementsAre(HasSubstr("1.00 GiB to spare is less than 1.60 GiB")));
  EXPECT_EQ(judge(kMachine, taking(kGiB * 79 - verdict.to_fit), {}).gpu, Fit::kFits);
  EXPECT_EQ(judge(kMachine, taking(kGiB * 79 - verdict.to_fit + Bytes{1}), {}).gpu, Fit::kAtRisk);
}

TEST(Verdict, EstimatesOutsideTheAllocatorWidenTheMargin) {
  Machine machine = kMachine;
  EXPECT_EQ(judge(machine, taking(kGiB * 70), {}).gpu, Fit::kFits);
  machine.estimated_outside = kGiB * 9;
  EXPECT_EQ(judge(machine, taking(kGiB * 70), {}).gpu, Fit::kAtRisk);
}

// What the allocator caches is no risk: it would be given back. 20 GiB to spare, 24 more reserved than live.
TEST(Verdict, CachedSegmentsAreNoRisk) {
  Demand demand = kUsual;
  demand.minimum = kGiB * 36;
  EXPECT_EQ(judge(kMachine, demand, {}).gpu, Fit::kFits);
}

// Of a failure that needn't be the reader learns what is made against it, or that it is on already.
TEST(Verdict, FragmentationThatDecidesSaysWhatToTry) {
  Demand demand = kUsual;
  const FailedRequest failed{.op = "aten::mm", .details = {.requested = kGiB}};
  EXPECT_THAT(
      judge(kMachine, demand, failed).reasons,
      ElementsAre(HasSubstr("a request of 1.00 GiB fails"),
                  HasSubstr("56.00 GiB are alive at once at most, the rest lies free between them in pieces "
                            "that are too small; allocator.configuration=expandable_segments:True")));
  demand.has_expandable_segments = true;
  EXPECT_THAT(judge(kMachine, demand, failed).reasons,
              ElementsAre(HasSubstr("fails"), HasSubstr("segments are expandable already")));
  demand.minimum = kGiB * 79;
  EXPECT_THAT(judge(kMachine, demand, failed).reasons, ElementsAre(HasSubstr("fails")));
}

TEST(Verdict, RetriesOfTheAllocatorAreARiskHoweverMuchIsLeft) {
  Demand demand = kUsual;
  demand.alloc_retries = 3;
  demand.wanted = kGiB * 81;
  const Verdict verdict = judge(kMachine, demand, {});
  EXPECT_EQ(verdict.gpu, Fit::kAtRisk);
  EXPECT_EQ(verdict.alloc_retries, 3);
  EXPECT_THAT(verdict.reasons, ElementsAre(HasSubstr("cached segments back 3 times")));
  EXPECT_EQ(verdict.to_fit, kGiB * 81 - (kGiB * 80 - kMachine.margin()));
}

TEST(Verdict, OutOfMemoryNamesPhaseOpModuleAndRequest) {
  Program program;
  const ModuleId module = program.module("model.layers.3.mlp");
  program.ops = {{.kind = OpKind::kMm, .module = module}};
  MemoryTimeline timeline;
  timeline.phases = {{.phase = "load"}, {.phase = "bwd1"}};
  timeline.oom = OomEvent{
      .phase = 1, .details = {.requested = kMiB * 256, .allocated = kGiB * 70, .reserved = kGiB * 77}};
  const FailedRequest failed = failed_request(program, timeline);
  EXPECT_EQ(failed.phase, PhaseKind::kFirstStep);
  EXPECT_EQ(failed.module, "model.layers.3.mlp");
  Demand demand = taking(kGiB * 95);
  demand.minimum = kGiB * 90;  // of the run without a limit
  const Verdict verdict = judge(kMachine, demand, failed);
  EXPECT_EQ(verdict.gpu, Fit::kOutOfMemory);
  EXPECT_THAT(verdict.reasons,
              ElementsAre(HasSubstr("first step (bwd1), at aten::mm.default of model.layers.3.mlp: "
                                    "a request of 256.00 MiB fails")));
  demand.minimum = kGiB * 76;  // no more than the allocator may take
  EXPECT_THAT(judge(kMachine, demand, failed).reasons,
              ElementsAre(HasSubstr("out of memory"), HasSubstr("fragmentation decides")));
}

TEST(Verdict, APhaseOfOneNameIsSaidOnce) {
  const FailedRequest failed{.phase = PhaseKind::kLoad, .timeline_phase = "load", .op = "aten::empty"};
  EXPECT_THAT(judge(kMachine, taking(kGiB * 95), failed).reasons[0], HasSubstr("in load, at aten::empty"));
}

TEST(Verdict, FilesFitOnTheNodesDrivesOrDoNot) {
  Machine machine = kMachine;
  machine.ranks_per_node = 8;
  Demand demand = kUsual;
  demand.disk = kGiB * 100;
  EXPECT_EQ(judge(machine, demand, {}).host, Fit::kFits);
  machine.disks_of_node = kGiB * 800;
  EXPECT_EQ(judge(machine, demand, {}).host, Fit::kFits);
  machine.disks_of_node = kGiB * 800 - Bytes{1};
  const Verdict verdict = judge(machine, demand, {});
  EXPECT_EQ(verdict.host, Fit::kOutOfMemory);
  EXPECT_THAT(verdict.reasons, ElementsAre(HasSubstr("disk full: 100.00 GiB in files for each of 8 ranks")));
}

TEST(Verdict, TheHostIsJudgedApart) {
  Demand demand = kUsual;
  demand.host = kGiB * 181;  // above nine tenths
  EXPECT_EQ(judge(kMachine, demand, {}).host, Fit::kAtRisk);
  EXPECT_EQ(judge(kMachine, demand, {}).host_to_fit, kGiB);
  EXPECT_EQ(judge(kMachine, demand, {}).gpu, Fit::kFits);
  demand.host = kGiB * 201;
  EXPECT_EQ(judge(kMachine, demand, {}).host, Fit::kOutOfMemory);
  EXPECT_EQ(judge(kMachine, demand, {}).worst(), Fit::kOutOfMemory);
}

}  // namespace
}  // namespace plimsoll
