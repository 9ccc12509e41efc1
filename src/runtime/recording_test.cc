// What a run allocates, event by event, against what its program says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/communication/in_process.h"
#include "runtime/tiny_run.h"
#include "trace/simulated_stack.h"

namespace plimsoll::runtime {
namespace {

struct Step {
  bool is_alloc = true;
  int64_t bytes = 0;
  std::string stack;  // "aten::mm.default of model.layers.0.mlp, activation"
  auto operator<=>(const Step&) const = default;
};

std::string text_of(const AllocationTrace& trace, const AllocationEvent& event) {
  const auto frames = trace.stacks.frames_of(*event.stack);
  const StackFrame& op = trace.stacks.frame(frames[0]);
  return op.name + " of " + op.filename + ", " + trace.stacks.frame(frames[1]).name;
}

// Without what operators take besides.
std::vector<Step> steps_of(const AllocationTrace& trace) {
  std::vector<Step> steps;
  for (const AllocationEvent& e : trace.events) {
    const bool is_alloc = e.action == AllocationAction::kAlloc;
    if (!is_alloc && e.action != AllocationAction::kFreeCompleted) continue;
    const std::string stack = text_of(trace, e);
    if (!stack.ends_with(", workspace")) steps.push_back({is_alloc, e.bytes.value, stack});
  }
  return steps;
}

Result<TrainingRun::Recording> recording_of(const std::vector<std::string>& settings) {
  const InProcessGroup group(1, std::chrono::seconds(60));
  const std::unique_ptr<Communicator> communicator = group.join(0);
  PLIMSOLL_TRY(run, play_tiny(*communicator, settings, 3, {.is_recorded = true}));
  return std::move(*run.recording);
}

class RecordedJobs : public testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(
    Recording, RecordedJobs,
    testing::Values(std::vector<std::string>{"batch.accumulation=2", "recompute.mode=full"},
                    std::vector<std::string>{"offload.activations=host", "offload.optimizer=disk",
                                             "offload.directory=/tmp"}));

TEST_P(RecordedJobs, EveryAllocationIsAsPredicted) {
  std::vector<std::string> settings = GetParam();
  settings.emplace_back("batch.sequence=16");
  const auto recording = recording_of(settings);
  ASSERT_TRUE(recording) << recording.error().to_text();
  const std::vector<Step> predicted = steps_of(recording->predicted),
                          measured = steps_of(recording->measured);
  ASSERT_EQ(predicted.size(), measured.size());
  for (size_t i = 0; i < predicted.size(); ++i)
    ASSERT_TRUE(predicted[i] == measured[i])
        << i << ": " << predicted[i].bytes << " B, " << predicted[i].stack << "; " << measured[i].bytes
        << " B, " << measured[i].stack;
}

TEST(Recording, HasTwoStepsWithTheirPhases) {
  const auto recording = recording_of({"batch.sequence=16"});
  ASSERT_TRUE(recording) << recording.error().to_text();
  for (const AllocationTrace* trace : {&recording->predicted, &recording->measured}) {
    std::vector<std::string> begun;
    for (const TraceAnnotation& a : trace->annotations)
      if (!a.is_end) begun.push_back(a.name);
    EXPECT_THAT(begun, testing::ElementsAre("load", "fwd1", "bwd1", "step1", "fwd2", "bwd2", "step2"));
    EXPECT_EQ(trace->annotations.size(), 2 * begun.size());
  }
}

TEST(Recording, WhatIsLiveAtTheEndIsItsState) {
  const auto recording = recording_of({"batch.sequence=16"});
  ASSERT_TRUE(recording) << recording.error().to_text();
  const auto state = [](const AllocationTrace& trace) {
    std::multiset<std::pair<std::string, int64_t>> blocks;
    for (const TraceSegment& s : trace.segments) {
      const StackFrame& category = trace.stacks.frame(trace.stacks.frames_of(*s.stack)[1]);
      blocks.emplace(category.name, s.bytes.value);
    }
    return blocks;
  };
  EXPECT_EQ(state(recording->predicted), state(recording->measured));
  EXPECT_TRUE(state(recording->measured).contains({"input", 16 * 8}));  // the ids of one sequence
}

}  // namespace
}  // namespace plimsoll::runtime
