// What autograd does around ops that write into tensors: expected orders are those of PyTorch 2.13's
// engine, read off traces of real code (Transformers' DeepSeek-V3 attention and routers).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/autograd.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

struct Discard : GradientSink {
  void accumulate(TensorId, Value) override {}
};

// Records `write` on two fp32 parameters, plays it, and tells what its backward allocates and frees.
std::vector<std::string> backward_events(const Layout& first, const Layout& second,
                                         Value (*write)(Value a, Value b)) {
  Program forward, complete;
  TensorId loss;
  const std::vector<Layout> layouts{first, second};
  Recorder recorder(forward, Recorder::Mode::kForward);
  std::vector<Value> parameters;
  for (const Layout& l : layouts)
    parameters.push_back(recorder.persistent(l, DType::kFloat32, Category::kParameter, {}, true));
  const Value root = write(parameters[0], parameters[1]);
  loss = root.id();
  recorder.finish();

  Recorder player(complete, Recorder::Mode::kComplete);
  std::vector<Value> played_parameters;
  for (const Layout& l : layouts)
    played_parameters.push_back(player.persistent(l, DType::kFloat32, Category::kParameter, {}, true));
  Discard sink;
  Autograd autograd(player, forward, sink, nullptr, {});
  for (size_t i = 0; i < layouts.size(); ++i) autograd.bind(parameters[i].id(), played_parameters[i]);
  Value played = autograd.forward(loss);
  autograd.release_locals();
  const size_t begin = complete.statements.size();
  autograd.backward(std::move(played));
  std::vector<std::string> events;
  for (size_t i = begin; i < complete.statements.size(); ++i) {
    const Statement& s = complete.statements[i];
    if (s.kind == StatementKind::kFree)
      events.push_back(fmt::format("-{}", complete.storages[s.index].bytes.value));
    if (s.kind != StatementKind::kOp) continue;
    const Op& op = complete.ops[s.index];
    const OpClass kind = class_of(op.kind);
    if (kind == OpClass::kView || kind == OpClass::kInPlace) continue;
    for (TensorId t : complete.outputs(op))
      events.push_back(fmt::format("{} {}", name_of(op.kind), complete.storage_of(t).bytes.value));
  }
  player.finish();
  return events;
}

Value summed(Value x) { return ops::sum(std::move(x), {0, 1}, false); }

// CopySlices: for each copied-over part, the latest first, a copy of the whole gradient and a clone of the
// part; zeros are put in the part's place where the rest goes on to an earlier write.
TEST(InPlace, CopiesIntoSlicesCopyTheWholeGradient) {
  const auto write = [](Value a, Value b) {
    Value joined = ops::empty(a.recorder(), {2, 6}, DType::kFloat32);
    joined = ops::copy_into_slice_(std::move(joined), std::move(a), 1, 0);
    joined = ops::copy_into_slice_(std::move(joined), std::move(b), 1, 4);
    return summed(std::move(joined));
  };
  EXPECT_THAT(backward_events(Layout::contiguous({2, 4}), Layout::contiguous({2, 2}), write),
              ElementsAre("OnesLike 4",                                               //
                          "Empty 48", "Clone 16", "ZerosLike 16", "-16",              // of b
                          "-16",                                                      // b's gradient is taken
                          "Empty 48", "Clone 32", "-48", "-48", "-32", "-4", "-4"));  // of a
}

// x /= y keeps x as it was, in a copy made before, only because y wants a gradient.
TEST(InPlace, DivisionKeepsACopyOfTheDividend) {
  const auto divide = [](Value a, Value b) {
    Value weights = ops::add(std::move(a), 0.0);
    weights = ops::div_(std::move(weights), std::move(b));
    return summed(std::move(weights));
  };
  EXPECT_THAT(backward_events(Layout::contiguous({4, 2}), Layout::contiguous({4, 1}), divide),
              ElementsAre("OnesLike 4", "Div 32", "Div 32", "Neg 32", "Mul 32", "-32", "-32", "-32", "Div 32",
                          "Sum 16", "-32", "-32", "-16", "-32", "-4", "-4"));
}

}  // namespace
}  // namespace plimsoll
