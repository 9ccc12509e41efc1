#include "estimate/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A step that uses 60 of 80 GiB, 58 of them reserved for 56 that live; context 2 GiB; 200 GiB of host memory
// for each rank.
Estimate usual() {
  Estimate e;
  e.gpu.usable_memory = kGiB * 80;
  e.outside.context = {.name = "context", .bytes = kGiB * 2};
  e.capacity = kGiB * 78;
  e.host_capacity = kGiB * 200;
  e.node.host_memory = kGiB * 1600;
  e.job.mesh.gpus_per_node = 8;
  PhaseEstimate step{.kind = PhaseKind::kSteadyStep};
  step.use.live = kGiB * 56;
  step.use.reserved = kGiB * 58;
  step.use.device = kGiB * 60;
  step.use.host = kGiB * 100;
  e.phases = {step};
  return e;
}

Verdict verdict_of(const Estimate& e) { return judge(e, {}, {}); }

TEST(Verdict, FitsWhenHeadroomExceedsWhatMayGoWrong) {
  const Verdict verdict = verdict_of(usual());
  EXPECT_EQ(verdict.gpu, Fit::kFits);
  EXPECT_EQ(verdict.host, Fit::kFits);
  EXPECT_TRUE(verdict.reasons.empty());
}

TEST(Verdict, LessHeadroomThanTheAllocatorsSlackIsARisk) {
  Estimate e = usual();
  e.phases[0].use.live = kGiB * 37;  // 21 GiB of slack, 20 of headroom
  const Verdict verdict = verdict_of(e);
  EXPECT_EQ(verdict.gpu, Fit::kAtRisk);
  EXPECT_THAT(verdict.reasons, ElementsAre(HasSubstr("20.00 GiB of headroom is less than the 21.00 GiB")));
}

TEST(Verdict, LessHeadroomThanWhatNobodyMeasuredIsARisk) {
  Estimate e = usual();
  e.outside.communicators = {{.name = "communicator", .bytes = kGiB * 21, .is_estimate = true}};
  EXPECT_EQ(verdict_of(e).gpu, Fit::kAtRisk);
  e.outside.communicators[0].is_estimate = false;
  EXPECT_EQ(verdict_of(e).gpu, Fit::kFits);
}

TEST(Verdict, RetriesOfTheAllocatorAreARiskOfTheirOwn) {
  MemoryTimeline timeline;
  timeline.phases = {{.phase = "bwd1", .alloc_retries = 1}, {.phase = "bwd2", .alloc_retries = 2}};
  const Verdict verdict = judge(usual(), {}, timeline);
  EXPECT_EQ(verdict.gpu, Fit::kAtRisk);
  EXPECT_EQ(verdict.alloc_retries, 3);
  EXPECT_THAT(verdict.reasons, ElementsAre(HasSubstr("cached segments back 3 times")));
}

TEST(Verdict, OutOfMemoryNamesPhaseOpModuleAndRequest) {
  Program program;
  const ModuleId module = program.module("model.layers.3.mlp");
  program.ops = {{.kind = OpKind::kMm, .module = module}};
  MemoryTimeline timeline;
  timeline.phases = {{.phase = "load"}, {.phase = "bwd1"}};
  timeline.oom = OomEvent{
      .phase = 1, .details = {.requested = kMiB * 256, .allocated = kGiB * 70, .reserved = kGiB * 77}};
  Estimate e = usual();
  e.phases[0].use.live = kGiB * 90;  // of the run without a limit
  const Verdict verdict = judge(e, program, timeline);
  EXPECT_EQ(verdict.gpu, Fit::kOutOfMemory);
  ASSERT_TRUE(verdict.failed);
  EXPECT_EQ(verdict.failed->phase, PhaseKind::kFirstStep);
  EXPECT_EQ(verdict.failed->module, "model.layers.3.mlp");
  EXPECT_THAT(verdict.reasons,
              ElementsAre(HasSubstr("first step (bwd1), at aten::mm.default of model.layers.3.mlp: "
                                    "a request of 256.00 MiB fails")));
  e.phases[0].use.live = kGiB * 76;  // no more than the allocator may take
  EXPECT_THAT(judge(e, program, timeline).reasons,
              ElementsAre(HasSubstr("out of memory"), HasSubstr("fragmentation decides")));
}

TEST(Verdict, TheHostIsJudgedApart) {
  Estimate e = usual();
  e.phases[0].use.host = kGiB * 181;  // above nine tenths
  EXPECT_EQ(verdict_of(e).host, Fit::kAtRisk);
  EXPECT_EQ(verdict_of(e).gpu, Fit::kFits);
  e.phases[0].use.host = kGiB * 201;
  EXPECT_EQ(verdict_of(e).host, Fit::kOutOfMemory);
}

}  // namespace
}  // namespace plimsoll
