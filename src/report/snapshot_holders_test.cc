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

// A block older than the trace of which only the free is known: its stack, innermost first.
LiveBlock freed_by(AllocationTrace& trace, const std::vector<StackFrame>& frames) {
  std::vector<FrameId> ids;
  for (const StackFrame& frame : frames) ids.push_back(trace.stacks.add_frame(frame));
  const StackId stack = trace.stacks.add(ids);
  trace.events.push_back(
      {.action = AllocationAction::kAlloc, .stack = trace.stacks.add({{.name = "other"}})});
  trace.events.push_back({.action = AllocationAction::kFreeRequested, .stack = stack});
  return {.bytes = Bytes{1024},
          .requested = Bytes{1024},
          .stack = stack,
          .is_stack_of_free = true,
          .freed = trace.events.size() - 1};
}

CodeLineHolders line_freed_by(const std::vector<StackFrame>& frames) {
  AllocationTrace trace;
  const LiveBlock block = freed_by(trace, frames);
  return holders_of(trace, {block}).lines.front();
}

TEST(SnapshotHolders, AFreeTellsWhatItLetsGoOfNotWhoAskedForIt) {
  const StackFrame engine{.name = "torch::autograd::Engine::evaluate_function(std::shared_ptr<>&)"};
  const StackFrame saved{.name = "torch::autograd::generated::ExpBackward0::release_variables()"};
  const StackFrame node{.name = "torch::autograd::generated::MulBackward0::apply(std::vector<>&&)"};
  const StackFrame vector{.name = "std::vector<at::Tensor>::~vector()"};
  const StackFrame step{.name = "step", .filename = "/home/me/optimizer.py", .line = 73};
  const StackFrame wrapper{.name = "wrapper", .filename = "/v/site-packages/torch/optim/optimizer.py"};
  const StackFrame zero{.name = "zero_grad", .filename = "/v/site-packages/torch/optim/optimizer.py"};
  const StackFrame forward{.name = "forward", .filename = "/home/me/model.py", .line = 5};
  EXPECT_EQ(line_freed_by({saved, engine}).role, BlockRole::kActivation);
  EXPECT_EQ(line_freed_by({vector, engine}).role, BlockRole::kBackward);
  EXPECT_EQ(line_freed_by({node, engine}).role, BlockRole::kUnknown);
  EXPECT_EQ(line_freed_by({step, wrapper}).role, BlockRole::kOptimizerState);
  EXPECT_EQ(line_freed_by({zero, step}).role, BlockRole::kBackward);
  EXPECT_EQ(line_freed_by({forward}).role, BlockRole::kUnknown);
  EXPECT_EQ(line_freed_by({step, wrapper}).where, "freed by me/optimizer.py:73 step");
  EXPECT_EQ(line_freed_by({saved, engine}).where,
            "freed by torch::autograd::generated::ExpBackward0::release_variables");
}

TEST(SnapshotHolders, TheOpOfAFreeMadeNothing) {
  const StackFrame op{.name = "at::_ops::mul::call(at::Tensor const&)"};
  EXPECT_EQ(line_freed_by({op, {.name = "main", .filename = "/home/me/a.py", .line = 1}}).op, "");
}

TEST(SnapshotHolders, AllOpsOfALineAreCounted) {
  AllocationTrace trace;
  const StackFrame line{.name = "f", .filename = "/home/me/a.py", .line = 1};
  const auto block = [&](const char* op, int64_t bytes) {
    trace.events.push_back({.stack = trace.stacks.add({{.name = op}, line})});
    return LiveBlock{.event = trace.events.size() - 1,
                     .bytes = Bytes{bytes},
                     .requested = Bytes{bytes},
                     .stack = trace.events.back().stack};
  };
  const std::vector<LiveBlock> blocks = {
      block("at::_ops::add::call(", 512), block("at::_ops::mm::call(", 2048),
      block("at::_ops::mm::call(", 512), block("at::_ops::mul::call(", 512)};
  const SnapshotHolders holders = holders_of(trace, blocks);
  EXPECT_EQ(holders.lines[0].op, "aten::mm");
  EXPECT_EQ(holders.lines[0].other_ops, 2);
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
