#include "replay/step_phases.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "trace/simulated_stack.h"

namespace plimsoll {
namespace {

using Runs = std::vector<std::pair<size_t, StepPhase>>;

// Allocs by a letter each: Forward, Backward, Optimizer, Input to the GPU, '-' without a stack; '|' is an
// annotation "Optimizer.step#SGD.step" before the next.
class Recorded {
 public:
  explicit Recorded(std::string_view allocs) {
    for (const char c : allocs) {
      now_ += Nanoseconds{1000};
      if (c == '|')
        trace_.annotations.push_back({.time = now_, .name = "Optimizer.step#SGD.step"});
      else
        trace_.events.push_back({.stack = stack_of(c), .address = 4096 * trace_.events.size(), .time = now_});
    }
  }

  StepPhases phases() const { return find_step_phases(trace_, meanings_of(trace_.stacks)); }
  Runs runs() const {
    Runs all;
    for (const PhaseRun& run : phases().runs) all.emplace_back(run.first, run.phase);
    return all;
  }

 private:
  std::optional<StackId> stack_of(char c) {
    const StackFrame train{.name = "train", .filename = "/home/me/train.py", .line = 31};
    switch (c) {
      case 'F':
        return trace_.stacks.add({{.name = "forward", .filename = "/home/me/model.py", .line = 54}, train});
      case 'B':
        return trace_.stacks.add({{.name = "torch::autograd::Engine::thread_main(x)", .filename = "??"}});
      case 'O':
        return trace_.stacks.add(
            {{.name = "step", .filename = "/venv/site-packages/torch/optim/adamw.py", .line = 9}, train});
      case 'I':
        return trace_.stacks.add({train});
      default:
        return std::nullopt;
    }
  }

  AllocationTrace trace_;
  Nanoseconds now_;
};

TEST(StepPhases, TwoStepsWithAccumulation) {
  const Recorded steps("IFIFBBFBBOOFFBFBO");
  const StepPhases found = steps.phases();
  EXPECT_EQ(found.told_by, PhasesToldBy::kRecording);
  EXPECT_EQ(found.forwards, 4);
  EXPECT_EQ(found.backwards, 4);
  EXPECT_EQ(found.optimizer_steps, 2);
  EXPECT_EQ(Recorded("IFBO").runs(),
            (Runs{{1, StepPhase::kForward}, {2, StepPhase::kBackward}, {3, StepPhase::kOptimizer}}));
}

// Optimizers that hooks of the backward call (apply_optimizer_in_backward).
TEST(StepPhases, OneThatStepsInTheBackwardIsOneBackwardAndOneStep) {
  const StepPhases found = Recorded("FFBOBOBOFFBOBOBO").phases();
  EXPECT_EQ(found.forwards, 2);
  EXPECT_EQ(found.backwards, 2);
  EXPECT_EQ(found.optimizer_steps, 2);
}

TEST(StepPhases, AnOptimizerThatAllocatesNothingIsAnnotated) {
  const Recorded steps("FB|FB|");
  EXPECT_EQ(steps.phases().optimizer_steps, 2);
  EXPECT_EQ(steps.runs(), (Runs{{0, StepPhase::kForward},
                                {1, StepPhase::kBackward},
                                {2, StepPhase::kOptimizer},
                                {2, StepPhase::kForward},
                                {3, StepPhase::kBackward},
                                {4, StepPhase::kOptimizer}}));
}

TEST(StepPhases, WhereNoStackShowsAForwardWhatIsNotKnownIsOne) {
  const StepPhases found = Recorded("IIBBIIBB").phases();
  EXPECT_EQ(found.forwards, 2);
  EXPECT_EQ(found.backwards, 2);
}

TEST(StepPhases, AForwardAloneHasNoBackward) {
  const StepPhases found = Recorded("IFIF").phases();
  EXPECT_EQ(found.forwards, 1);
  EXPECT_EQ(found.backwards, 0);
}

TEST(StepPhases, WhatNothingTellsIsNotKnown) {
  for (const char* allocs : {"", "----", "IIII"}) {
    const StepPhases found = Recorded(allocs).phases();
    EXPECT_EQ(found.told_by, PhasesToldBy::kNothing) << allocs;
    EXPECT_FALSE(found.forwards || found.backwards || found.optimizer_steps) << allocs;
  }
  const StepPhases annotated = Recorded("--|--|").phases();
  EXPECT_FALSE(annotated.forwards || annotated.backwards);
  EXPECT_EQ(annotated.optimizer_steps, 2);
}

// Where only Python's frames are recorded, the backward's thread has none; where an alloc has none at all,
// those of the blocks at the dump say nothing of it.
TEST(StepPhases, AnAllocWithoutAStackAmongPythonsIsOfTheBackward) {
  EXPECT_EQ(Recorded("FF--O").phases().backwards, 1);
  AllocationTrace of_blocks;
  const StackId stack = of_blocks.stacks.add({{.name = "forward", .filename = "/home/me/model.py"}});
  of_blocks.events.resize(2);
  of_blocks.segments.push_back(
      {.bytes = Bytes{4096},
       .blocks = {{.bytes = Bytes{4096}, .state = BlockState::kAllocated, .stack = stack}}});
  const StepPhases found = find_step_phases(of_blocks, meanings_of(of_blocks.stacks));
  EXPECT_EQ(found.told_by, PhasesToldBy::kNothing);
  EXPECT_FALSE(found.backwards);
}

// The backward's logits are an activation by their category, the forward's temporaries a "temporary".
TEST(StepPhases, OfASimulatedTraceThePhasesTellNotTheCategories) {
  AllocationTrace trace;
  const auto alloc = [&](const char* category, int64_t at) {
    const StackId stack = trace.stacks.add({simulated_frame("aten::mm", ""), category_frame(category)});
    trace.events.push_back({.stack = stack, .time = Nanoseconds{at * 1000}});
  };
  for (const char* category : {"temporary", "activation", "logits", "temporary"})
    alloc(category, static_cast<int64_t>(trace.events.size()));
  const StepPhases by_category = find_step_phases(trace, meanings_of(trace.stacks));
  EXPECT_EQ(by_category.told_by, PhasesToldBy::kNothing);
  EXPECT_FALSE(by_category.backwards);

  trace.annotations = {{.time = Nanoseconds{0}, .name = "fwd1.1"},
                       {.time = Nanoseconds{2000}, .name = "fwd1.1", .is_end = true},
                       {.time = Nanoseconds{2000}, .name = "bwd1.1"},
                       {.time = Nanoseconds{3000}, .name = "bwd1.2"},
                       {.time = Nanoseconds{4000}, .name = "step1"}};
  const StepPhases found = find_step_phases(trace, meanings_of(trace.stacks));
  EXPECT_EQ(found.told_by, PhasesToldBy::kSimulation);
  EXPECT_EQ(found.forwards, 1);
  EXPECT_EQ(found.backwards, 2);
  EXPECT_EQ(found.optimizer_steps, 1);
  ASSERT_EQ(found.runs.size(), 4U);
  EXPECT_EQ(found.runs[1].first, 2U);
  EXPECT_EQ(found.runs[3].first, 4U);
}

}  // namespace
}  // namespace plimsoll
