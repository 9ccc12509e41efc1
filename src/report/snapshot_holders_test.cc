#include "report/snapshot_holders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/program.h"
#include "trace/simulated_stack.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

// A step: activations in forward, gradients in backward, states in the optimizer's first step; the parameter
// is from before the trace.
class OneStep {
 public:
  OneStep() {
    const StackFrame train{.name = "<module>", .filename = "/home/me/train.py", .line = 9};
    const StackFrame model{.name = "forward", .filename = "/home/me/project/model.py", .line = 54};
    const StackFrame call{
        .name = "_call_impl", .filename = "/venv/site-packages/torch/nn/modules/module.py", .line = 1790};
    const StackFrame mm{.name = "at::_ops::mm::call(at::Tensor const&)", .filename = "??"};
    const StackFrame node{.name = "torch::autograd::generated::MmBackward0::apply(x)", .filename = "??"};
    const StackFrame step{
        .name = "_init_group", .filename = "/venv/site-packages/torch/optim/adamw.py", .line = 100};
    forward_ = trace.stacks.add({mm, model, call, train});
    backward_ = trace.stacks.add({mm, node});
    optimizer_ = trace.stacks.add({step, train});
    block(0x100, 2048, forward_);
    block(0x200, 1024, backward_);
    freed(0x100);
    block(0x300, 1024, optimizer_);
    block(0x400, 512, optimizer_);
    freed(0x400);
    block(0x500, 512, forward_);
  }

  AllocationTrace trace;
  std::vector<LiveBlock> blocks = {{.address = 0x10, .bytes = Bytes{1024}, .requested = Bytes{1024}}};

 private:
  void block(uint64_t address, int64_t bytes, StackId stack) {
    blocks.push_back({.event = trace.events.size(),
                      .address = address,
                      .bytes = Bytes{bytes},
                      .requested = Bytes{bytes},
                      .stack = stack});
    trace.events.push_back(
        {.action = AllocationAction::kAlloc, .stack = stack, .address = address, .bytes = Bytes{bytes}});
  }
  void freed(uint64_t address) {
    for (LiveBlock& b : blocks)
      if (b.address == address) b.freed = trace.events.size();
    trace.events.push_back({.action = AllocationAction::kFreeRequested, .address = address});
  }
  StackId forward_ = 0, backward_ = 0, optimizer_ = 0;
};

Bytes of(const SnapshotHolders& holders, BlockRole role) {
  return holders.by_role[static_cast<size_t>(role)];
}

TEST(SnapshotHolders, RolesComeFromStacksSizesAndLifetimes) {
  const OneStep s;
  const SnapshotHolders holders = holders_of(s.trace, s.blocks);
  EXPECT_EQ(of(holders, BlockRole::kActivation), Bytes{2560});
  EXPECT_EQ(of(holders, BlockRole::kBackward), Bytes{1024});
  EXPECT_EQ(of(holders, BlockRole::kOptimizerState), Bytes{1024});
  EXPECT_EQ(of(holders, BlockRole::kOptimizerTemporary), Bytes{512});
  EXPECT_EQ(of(holders, BlockRole::kParameter), Bytes{1024});  // as large as the gradient, never freed
  EXPECT_EQ(of(holders, BlockRole::kUnknown), Bytes{});
  EXPECT_EQ(holders.total, Bytes{6144});
}

TEST(SnapshotHolders, OldBlocksOfOtherSizesStayUnknown) {
  OneStep s;
  s.blocks[0].requested = Bytes{700};
  EXPECT_EQ(of(holders_of(s.trace, s.blocks), BlockRole::kUnknown), Bytes{1024});
}

TEST(SnapshotHolders, LinesAreTheUsersOwn) {
  const OneStep s;
  const SnapshotHolders holders = holders_of(s.trace, s.blocks);
  std::vector<std::string> lines;
  for (const CodeLineHolders& line : holders.lines) lines.push_back(line.where);
  EXPECT_THAT(lines,
              ElementsAre("project/model.py:54 forward", "(from before the trace)", "me/train.py:9 <module>",
                          "torch::autograd::generated::MmBackward0::apply", "me/train.py:9 <module>"));
  EXPECT_EQ(holders.lines[0].op, "aten::mm");
  EXPECT_EQ(holders.lines[0].count, 2);
  EXPECT_EQ(holders.lines[0].largest, Bytes{2048});
}

// `explain --snapshot` says what each block is for, and so nothing is guessed of it.
TEST(SnapshotHolders, OfASimulatedTraceAreOfItsCategories) {
  AllocationTrace trace;
  const StackId state = trace.stacks.add(
      {simulated_frame("aten::zeros.default", "model.layers.3.mlp"), category_frame("optimizer_state")});
  const StackId input = trace.stacks.add({simulated_frame("aten::empty", ""), category_frame("input")});
  const std::vector<LiveBlock> blocks = {
      {.event = 0, .bytes = Bytes{2048}, .requested = Bytes{2000}, .stack = state},
      {.event = 1, .bytes = Bytes{512}, .requested = Bytes{8}, .stack = input}};
  trace.events = {{.action = AllocationAction::kAlloc, .stack = state},
                  {.action = AllocationAction::kAlloc, .stack = input}};
  const SnapshotHolders holders = holders_of(trace, blocks);
  EXPECT_TRUE(holders.is_simulated);
  EXPECT_EQ(of(holders, BlockRole::kOptimizerState), Bytes{2048});
  EXPECT_EQ(of(holders, BlockRole::kInput), Bytes{512});
  EXPECT_EQ(holders.lines[0].where, "model.layers.{}.mlp");
  EXPECT_EQ(holders.lines[0].op, "aten::zeros.default");
  EXPECT_EQ(holders.lines[1].where, "(no module)");
}

TEST(SnapshotHolders, EveryCategoryHasARole) {
  for (int i = 0; i < kCategoryCount; ++i) {
    const std::string_view name = name_of(static_cast<Category>(i));
    EXPECT_NE(role_of_category(name), BlockRole::kUnknown) << name;
  }
  EXPECT_EQ(role_of_category("forward"), BlockRole::kUnknown);
}

}  // namespace
}  // namespace plimsoll
