#include "estimate/phases.h"

#include <gtest/gtest.h>

#include "estimate/host_use.h"

namespace plimsoll {
namespace {

TEST(PhaseKind, TheFirstIterationIsTheFirstStep) {
  EXPECT_EQ(phase_kind_of("load"), PhaseKind::kLoad);
  EXPECT_EQ(phase_kind_of("fwd1"), PhaseKind::kFirstStep);
  EXPECT_EQ(phase_kind_of("bwd1.12"), PhaseKind::kFirstStep);
  EXPECT_EQ(phase_kind_of("zero1"), PhaseKind::kFirstStep);
  EXPECT_EQ(phase_kind_of("fwd2.1"), PhaseKind::kSteadyStep);
  EXPECT_EQ(phase_kind_of("step10"), PhaseKind::kSteadyStep);  // not the first
  EXPECT_EQ(phase_kind_of("eval"), PhaseKind::kEvaluation);
}

PhaseMemory phase(std::string name, int64_t live, int64_t reserved) {
  return {.phase = std::move(name),
          .live_peak = Bytes{live},
          .live_end = Bytes{512},
          .reserved_peak = Bytes{reserved},
          .reserved_end = Bytes{reserved},
          .workspace_peak = Bytes{live}};
}

struct Played {
  Program program;
  MemoryTimeline timeline;
  DeviceParts outside{.context = {.bytes = Bytes{100}}};
};

// The highest of each, wherever it was reached; what is said of the live peak is of one moment.
TEST(Phases, AStepIsTheHighestOfItsParts) {
  Played run;
  run.timeline.phases = {phase("load", 1000, 5000), phase("fwd1", 3000, 7000), phase("bwd1", 4000, 6000),
                         phase("step1", 2000, 8000)};
  run.timeline.phases[2].workspace_peak = Bytes{4700};
  const std::vector<PhaseEstimate> phases = phases_of(run.program, run.timeline, {}, run.outside);
  ASSERT_EQ(phases.size(), 2u);
  const PhaseEstimate& step = phases[1];
  EXPECT_EQ(step.kind, PhaseKind::kFirstStep);
  EXPECT_EQ(step.use.live, Bytes{4000});
  EXPECT_EQ(step.use.timeline_phase, 2u);
  EXPECT_EQ(step.use.categories[static_cast<size_t>(Category::kWorkspace)], Bytes{700});
  EXPECT_EQ(step.use.reserved, Bytes{8000});
  EXPECT_EQ(step.use.device, Bytes{8100});
  EXPECT_EQ(step.forward->live, Bytes{3000});
  EXPECT_EQ(step.backward->live, Bytes{4000});
  EXPECT_EQ(step.optimizer->reserved, Bytes{8000});
}

TEST(Phases, ASaveHoldsWhatTheRunLeftAndTheStagingOnTheHost) {
  Played run;
  run.program.storages = {{.bytes = Bytes{1000}, .category = Category::kParameter},
                          {.bytes = Bytes{500}, .category = Category::kTemporary},
                          {.bytes = Bytes{600}, .category = Category::kGradient, .tier = Tier::kHost}};
  const auto event = [](bool is_alloc, uint32_t storage) {
    return MemoryEvent{.is_alloc = is_alloc, .storage = StorageId{storage}};
  };
  run.timeline.events = {event(true, 0), event(true, 2), event(true, 1), event(false, 1)};
  run.timeline.phases = {phase("eval", 3000, 7000)};
  const std::vector<Category> shown = {Category::kParameter, Category::kGradient, Category::kTemporary,
                                       Category::kTemporary};
  const PhaseEstimate save = save_phase(run.program, run.timeline, shown, run.outside, Bytes{30});
  EXPECT_EQ(save.use.live, Bytes{512});
  EXPECT_EQ(save.use.device, Bytes{7100});
  EXPECT_EQ(save.use.host, kProcessBaseline + Bytes{30});
  EXPECT_EQ(save.use.categories[static_cast<size_t>(Category::kParameter)], Bytes{1024});
  EXPECT_EQ(save.use.categories[static_cast<size_t>(Category::kTemporary)], Bytes{0});
  EXPECT_EQ(save.use.categories[static_cast<size_t>(Category::kGradient)], Bytes{0});  // on the host
}

TEST(SaveStaging, IsOneFileOfTheModelOrOneShard) {
  Program program;
  const auto parameter = [](int64_t bytes, Tier tier = Tier::kGpu) {
    return Storage{.bytes = Bytes{bytes}, .category = Category::kParameter, .tier = tier};
  };
  program.storages = {parameter(300),
                      parameter(500),
                      parameter(700, Tier::kHost),
                      {.bytes = Bytes{900}, .category = Category::kGradient}};
  MemoryTimeline timeline{.is_live_at_end = {true, true, true, true}};
  EXPECT_EQ(save_staging(program, timeline, {}).bytes, Bytes{800});
  timeline.is_live_at_end[1] = false;  // given up
  EXPECT_EQ(save_staging(program, timeline, {}).bytes, Bytes{300});
  program.storages.push_back(parameter(60'000'000'000));
  timeline.is_live_at_end.push_back(true);
  EXPECT_EQ(save_staging(program, timeline, {}).bytes, Bytes{50'000'000'000});  // max_shard_size
  EXPECT_EQ(save_staging(program, timeline, {.engine = DataParallelEngine::kFsdp2}).bytes,
            Bytes{60'000'000'000 + 10'000'000});  // the largest shard and what is copied ahead
}

}  // namespace
}  // namespace plimsoll
