#include "replay/held_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kSize = 1000;

// A trace of a training loop, written by hand: every block has an address of its own.
class Loop {
 public:
  Loop() {
    const StackFrame train{.name = "train", .filename = "/home/me/train.py", .line = 31};
    const StackFrame head{.name = "forward", .filename = "/home/me/model.py", .line = 80};
    const StackFrame block{.name = "forward", .filename = "/home/me/model.py", .line = 54};
    const StackFrame node{.name = "torch::autograd::generated::MmBackward0::apply(x)", .filename = "??"};
    const StackFrame adam{.name = "step", .filename = "/venv/site-packages/torch/optim/adamw.py", .line = 9};
    head_ = trace_.stacks.add({head, train});
    block_ = trace_.stacks.add({block, train});
    backward_ = trace_.stacks.add({node});
    optimizer_ = trace_.stacks.add({adam, train});
  }

  uint64_t head() { return alloc(head_); }
  uint64_t block() { return alloc(block_); }
  uint64_t gradient() { return alloc(backward_); }
  uint64_t state() { return alloc(optimizer_); }
  uint64_t without_stack() { return alloc(std::nullopt); }
  void free(uint64_t address) {
    bytes_.emplace_back();
    trace_.events.push_back(
        {.action = AllocationAction::kFreeRequested, .address = address, .bytes = Bytes{kSize}});
    tick();
  }
  void optimizer_step() {  // that allocates nothing
    trace_.annotations.push_back({.time = now_, .name = "Optimizer.step#SGD.step"});
  }
  // What a forward makes for its backward, and a gradient of each.
  void forward_and_backward(uint64_t& gradient_made) {
    const uint64_t saved = block();
    gradient_made = gradient();
    free(saved);
  }

  HeldBlocks held(std::optional<size_t> peak = std::nullopt) const {
    const std::vector<StackMeaning> meanings = meanings_of(trace_.stacks);
    return find_held_blocks(trace_, find_step_phases(trace_, meanings), meanings, bytes_, peak);
  }
  size_t last_event() const { return trace_.events.size() - 1; }
  std::string code_of(const std::optional<FrameId>& frame) const {
    return frame ? std::to_string(trace_.stacks.frame(*frame).line) : "none";
  }

 private:
  uint64_t alloc(std::optional<StackId> stack) {
    bytes_.emplace_back(1024);
    next_ += 4096;
    trace_.events.push_back({.action = AllocationAction::kAlloc,
                             .stack = stack,
                             .address = next_,
                             .bytes = Bytes{kSize},
                             .time = now_});
    tick();
    return next_;
  }
  void tick() { now_ += Nanoseconds{1000}; }

  AllocationTrace trace_;
  std::vector<Bytes> bytes_;
  StackId head_ = 0, block_ = 0, backward_ = 0, optimizer_ = 0;
  uint64_t next_ = 0;
  Nanoseconds now_{1};
};

TEST(HeldBlocks, AResultThatTheNextForwardReplaces) {
  Loop loop;
  uint64_t outputs = 0, gradient = 0;
  size_t peak = 0;
  for (int step = 0; step < 3; ++step) {
    const uint64_t saved = loop.block(), made = loop.head();
    if (step == 1) peak = loop.last_event();
    if (step > 0) loop.free(outputs);
    outputs = made;
    gradient = loop.gradient();
    loop.free(saved);
    loop.free(loop.state());
    loop.free(gradient);
  }
  const HeldBlocks held = loop.held(peak);
  EXPECT_EQ(held.backwards, 3);
  ASSERT_THAT(held.lines, SizeIs(1));
  const HeldLine& line = held.lines[0];
  EXPECT_EQ(line.until, HeldUntil::kNextForward);
  EXPECT_EQ(line.kind, HeldKind::kOfForward);
  EXPECT_EQ(line.blocks, 3);
  EXPECT_EQ(line.most, Bytes{1024});
  EXPECT_EQ(line.at_peak, Bytes{1024});
  EXPECT_EQ(held.at_peak, Bytes{1024});
  EXPECT_EQ(loop.code_of(line.frame), "80");
  EXPECT_EQ(loop.code_of(line.call_frame), "31");
}

TEST(HeldBlocks, AListOfResultsGrows) {
  Loop loop;
  for (int step = 0; step < 4; ++step) {
    loop.head();
    uint64_t gradient = 0;
    loop.forward_and_backward(gradient);
    loop.free(loop.state());
    loop.free(gradient);
  }
  const HeldBlocks held = loop.held(loop.last_event());
  ASSERT_THAT(held.lines, SizeIs(1));
  EXPECT_EQ(held.lines[0].until, HeldUntil::kGrowing);
  EXPECT_EQ(held.lines[0].steps, 4);
  EXPECT_EQ(held.lines[0].most, Bytes{4096});
  EXPECT_EQ(held.at_peak, Bytes{4096});
}

TEST(HeldBlocks, WhatLivesThroughTheOptimizersStepOnly) {
  Loop loop;
  for (int step = 0; step < 2; ++step) {
    const uint64_t result = loop.head(), gradient = loop.gradient();
    loop.free(loop.state());
    loop.free(result);
    loop.free(gradient);
  }
  const HeldBlocks held = loop.held();
  ASSERT_THAT(held.lines, SizeIs(1));
  EXPECT_EQ(held.lines[0].until, HeldUntil::kStepEnd);
  EXPECT_EQ(held.at_peak, Bytes{});
}

TEST(HeldBlocks, GradientsThatAreFreedAfterTheNextForward) {
  Loop late, prompt;
  uint64_t of_late = 0, of_prompt = 0;
  for (int step = 0; step < 3; ++step) {
    const uint64_t saved = late.block();
    if (step > 0) late.free(of_late);
    of_late = late.gradient();
    late.free(saved);
    late.free(late.state());
    prompt.forward_and_backward(of_prompt);
    prompt.free(prompt.state());
    prompt.free(of_prompt);
  }
  const HeldBlocks held = late.held();
  ASSERT_THAT(held.lines, SizeIs(1));
  EXPECT_EQ(held.lines[0].kind, HeldKind::kGradient);
  EXPECT_EQ(held.lines[0].until, HeldUntil::kNextForward);
  EXPECT_EQ(held.lines[0].blocks, 2);  // the last step's isn't held yet
  EXPECT_THAT(prompt.held().lines, IsEmpty());
}

TEST(HeldBlocks, GradientsThatNoStepFrees) {
  Loop loop;
  const uint64_t saved = loop.block();
  loop.gradient();
  loop.free(saved);
  for (int step = 0; step < 2; ++step) {
    loop.optimizer_step();
    const uint64_t again = loop.block();
    loop.free(loop.gradient());
    loop.free(again);
  }
  const HeldBlocks held = loop.held();
  ASSERT_THAT(held.lines, SizeIs(1));
  EXPECT_EQ(held.lines[0].until, HeldUntil::kKept);
}

TEST(HeldBlocks, AccumulatedGradientsAreInUse) {
  Loop loop;
  uint64_t gradient = 0, other = 0;
  for (int micro_step = 0; micro_step < 3; ++micro_step) {
    loop.forward_and_backward(micro_step == 0 ? gradient : other);
    if (micro_step > 0) loop.free(other);
  }
  loop.free(loop.state());
  loop.free(gradient);
  loop.block();
  EXPECT_THAT(loop.held().lines, IsEmpty());
}

TEST(HeldBlocks, WhatALaterBackwardFreesWasInUse) {
  Loop loop;  // a pipeline: the forwards of two micro-batches before the first backward
  std::vector<uint64_t> saved = {loop.block(), loop.block()};
  for (int i = 0; i < 4; ++i) {
    loop.free(loop.gradient());
    loop.free(saved[static_cast<size_t>(i)]);
    if (i < 2) saved.push_back(loop.block());
  }
  loop.state();
  EXPECT_THAT(loop.held().lines, IsEmpty());
}

TEST(HeldBlocks, WhatOneForwardMadeForAllIsACache) {
  Loop loop;
  loop.head();
  uint64_t gradient = 0;
  for (int step = 0; step < 3; ++step) {
    loop.forward_and_backward(gradient);
    loop.free(loop.state());
    loop.free(gradient);
  }
  EXPECT_THAT(loop.held().lines, IsEmpty());
}

TEST(HeldBlocks, OfOneStepTheDumpTells) {
  Loop loop;
  loop.head();
  uint64_t gradient = 0;
  loop.forward_and_backward(gradient);
  EXPECT_THAT(loop.held().lines, IsEmpty());  // the backward may go on
  loop.state();
  const HeldBlocks held = loop.held(loop.last_event());
  ASSERT_THAT(held.lines, SizeIs(1));
  EXPECT_EQ(held.lines[0].until, HeldUntil::kDump);
  EXPECT_EQ(held.at_peak, Bytes{1024});
}

TEST(HeldBlocks, WithoutStacksNothingIsSaid) {
  Loop loop;
  const uint64_t a = loop.without_stack();
  loop.without_stack();
  loop.free(a);
  const HeldBlocks held = loop.held(loop.last_event());
  EXPECT_EQ(held.backwards, 0);
  EXPECT_THAT(held.lines, IsEmpty());
}

}  // namespace
}  // namespace plimsoll
