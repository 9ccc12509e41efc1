// Mechanisms of autograd, each on a program of a few ops. Source of what is expected: PyTorch's
// torch/csrc/autograd/{engine.cpp,input_buffer.cpp,functions/accumulate_grad.h}, torch/utils/checkpoint.py.
#include "program/autograd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/differentiate_fixture.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

std::string backward_ops(const std::string& text, AutogradOptions options = {}) {
  return ops_of(differentiate_text("plimsoll program 1 forward\n" + text, options).program, "backward");
}

// ---- sums of gradients ----

// a = tanh(x); a + silu(a): two gradients meet at tanh.
const std::string kResidual = R"(tensor %0:bf16[64] grad parameter of @x
%1:bf16[64] grad = Tanh(%0)
%2:bf16[64] grad = Silu(%1)
%3:bf16[64] grad = Add(%1, %2)
drop %1
drop %2
%4:bf16[64] grad = MulScalar(%3) {2}
drop %3
)";

TEST(Autograd, GradientsOfAResidualAreSummedIntoTheFirst) {
  const Differentiated d = differentiate_text("plimsoll program 1 forward\n" + kResidual);
  EXPECT_EQ(statements_of(d.program, "backward"), R"(%5:bf16[64] s5 temporary = OnesLike(%4)
%6:bf16[64] s6 temporary = MulScalar(%5) {2} backward_of MulScalar
%7:bf16[64] s7 temporary = SiluBackward(%6, %1) backward_of Silu
%8:bf16[64] = AddInPlace(%6, %7)
free s7 local
%9:bf16[64] s8 gradient = TanhBackward(%8, %1) backward_of Tanh
free s6 local
free s1 saved
free s5 local
free s4 local
)");
}

TEST(Autograd, UnderATracingModeEverySumIsANewTensor) {
  EXPECT_EQ(backward_ops(kResidual, {.sums_in_place = false}),
            "OnesLike MulScalar SiluBackward Add TanhBackward");
}

// The root's gradient is held by the caller: nothing may be added into it.
TEST(Autograd, AGradientThatSomebodyElseHoldsIsNotAddedInto) {
  EXPECT_EQ(backward_ops("tensor %0:bf16[64] grad parameter of @x\n%1:bf16[64] grad = Tanh(%0)\n"
                         "%2:bf16[64] grad = Silu(%1)\n%3:bf16[64] grad = Add(%1, %2)\ndrop %1\ndrop %2\n"),
            "OnesLike SiluBackward Add TanhBackward");
}

// Both gradients are views of what arrived: nobody owns a view's storage alone.
TEST(Autograd, GradientsThatAreViewsAreSummedIntoANewTensor) {
  EXPECT_EQ(backward_ops("tensor %0:bf16[8,8] grad parameter of @x\n%1:bf16[8,8] grad = Tanh(%0)\n"
                         "%2:bf16[64] grad view = View(%1)\n%3:bf16[64] grad view = View(%1)\ndrop %1\n"
                         "%4:bf16[64] grad = Silu(%2)\n%5:bf16[64] grad = Silu(%3)\ndrop %2\ndrop %3\n"
                         "%6:bf16[64] grad = Mul(%4, %5)\n"),
            "OnesLike Mul Mul SiluBackward SiluBackward Add TanhBackward");
}

// ---- leaves ----

TEST(Autograd, AParameterUsedTwiceGetsTheSumOfItsGradients) {
  const Differentiated d = differentiate_text(
      "plimsoll program 1 forward\ntensor %0:bf16[8,8] grad parameter of @w\n"
      "tensor %1:bf16[8,8] input\n%2:bf16[8,8] grad = Mm(%1, %0)\n"
      "%3:bf16[8,8] grad = Mm(%2, %0)\ndrop %2\n");
  EXPECT_EQ(ops_of(d.program, "backward"), "OnesLike Mm Mm Mm AddInPlace");
  EXPECT_TRUE(d.gradients.contains(0));
  EXPECT_FALSE(d.gradients.contains(1));
}

// With a frozen weight the input isn't kept, and with an input that wants nothing the weight isn't.
TEST(Autograd, KeepsOnlyWhatTheWantedGradientsNeed) {
  const auto kept = [](const char* x_grad, const char* w_grad) {
    return kept_between(
        differentiate_text(
            fmt::format("plimsoll program 1 forward\ntensor %0:bf16[8,8] {} parameter of @w\n"
                        "tensor %1:bf16[8,8] grad parameter of @x\n%2:bf16[8,8] {} = Cast(%1)\n"
                        "%3:bf16[8,8] grad = Mm(%2, %0)\ndrop %2\n%4:bf16[8,8] grad = Add(%3, %1)\n",
                        w_grad, x_grad))
            .program);
  };
  EXPECT_EQ(kept("grad", "grad"), Bytes{128});
  EXPECT_EQ(kept("grad", ""), Bytes{0});
}

TEST(Autograd, AGradientInAnotherDtypeIsCastToThatOfItsInput) {
  const Differentiated d = differentiate_text(
      "plimsoll program 1 forward\ntensor %0:bf16[8] grad parameter of @x\ntensor %1:fp32[8] grad parameter "
      "of @y\n"
      "%2:fp32[8] grad = Mul(%0, %1)\n");
  EXPECT_EQ(ops_of(d.program, "backward"), "OnesLike Mul Mul Cast");
  EXPECT_EQ(d.gradients.at(0).dtype, DType::kBFloat16);
  EXPECT_EQ(d.gradients.at(1).dtype, DType::kFloat32);
}

TEST(Autograd, ABroadcastInputGetsTheSumOverWhatWasBroadcast) {
  const Differentiated d = differentiate_text(
      "plimsoll program 1 forward\ntensor %0:bf16[4,8] grad parameter of @x\ntensor %1:bf16[8] grad "
      "parameter of @b\n"
      "%2:bf16[4,8] grad = Add(%0, %1)\n");
  EXPECT_EQ(d.gradients.at(1).layout, Layout::contiguous({8}));
}

// ---- checkpoints ----

// y = silu(x W) V in one call; `marks` are those of its region. The head outside makes the region's result
// needed.
std::string mlp(const std::string& marks) {
  return "plimsoll program 1 forward\n"
         "tensor %0:bf16[8,8] grad parameter of @w\n"
         "tensor %1:bf16[8,8] grad parameter of @v\n"
         "tensor %2:bf16[4,8] grad parameter of @x\n"
         "region r0 block @mlp (%3) -> (%6)" +
         marks +
         "\n%3:bf16[4,8] grad = Tanh(%2)\n"
         "begin r0\n"
         "%4:bf16[4,8] grad = Mm(%3, %0)\n"
         "%5:bf16[4,8] grad = Silu(%4)\n"
         "drop %4\n"
         "%6:bf16[4,8] grad = Mm(%5, %1)\n"
         "drop %5\n"
         "end r0\n"
         "drop %3\n"
         "%7:bf16[4,8] grad = Tanh(%6)\n"
         "drop %6\n";
}

TEST(Autograd, WithoutACheckpointEveryInputIsKept) {
  const Differentiated d = differentiate_text(mlp(""));
  EXPECT_EQ(ops_of(d.program, "backward"), "OnesLike TanhBackward Mm Mm SiluBackward Mm Mm TanhBackward");
  EXPECT_EQ(kept_between(d.program), Bytes{3 * 64});  // tanh's result, silu's input, silu's result
}

// What is computed again stops at the last tensor that somebody saved: the second product isn't repeated.
TEST(Autograd, ANonReentrantCheckpointStopsEarly) {
  const Differentiated d = differentiate_text(mlp(" non_reentrant"));
  EXPECT_EQ(ops_of(d.program, "backward"),
            "OnesLike TanhBackward Mm* Silu* Mm Mm SiluBackward Mm Mm TanhBackward");
  EXPECT_EQ(kept_between(d.program), Bytes{64});  // its argument
}

// A reentrant one is a function with a backward of its own inside: all of it is computed again, on detached
// arguments.
TEST(Autograd, AReentrantCheckpointComputesAllOfItAgain) {
  const Differentiated d = differentiate_text(mlp(" reentrant"));
  EXPECT_EQ(ops_of(d.program, "backward"),
            "OnesLike TanhBackward Mm* Silu* Mm* Mm Mm SiluBackward Mm Mm TanhBackward");
  EXPECT_THAT(statements_of(d.program, "backward"), HasSubstr("Detach(%3)"));
  EXPECT_EQ(kept_between(d.program), Bytes{64});
}

TEST(Autograd, ASelectiveCheckpointComputesOnlyTheRestAgain) {
  const Differentiated d = differentiate_text(mlp(" selective keeps (Mm)"));
  EXPECT_EQ(ops_of(d.program, "backward"),
            "OnesLike TanhBackward Silu* Mm Mm SiluBackward Mm Mm TanhBackward");
  EXPECT_EQ(kept_between(d.program), Bytes{3 * 64});  // its argument and both products
}

// All four give the same gradients, laid out alike.
TEST(Autograd, CheckpointsChangeNoGradient) {
  const Differentiated plain = differentiate_text(mlp(""));
  for (const char* marks : {" non_reentrant", " reentrant", " selective keeps (Mm)"}) {
    const Differentiated d = differentiate_text(mlp(marks));
    ASSERT_EQ(d.gradients.size(), plain.gradients.size()) << marks;
    for (const auto& [tensor, info] : plain.gradients) EXPECT_EQ(d.gradients.at(tensor).layout, info.layout);
  }
}

// ---- units ----

class HookLog : public UnitHooks {
 public:
  void before_forward(RegionId) override { text += "before_forward "; }
  void after_forward(RegionId) override { text += "after_forward "; }
  void before_backward(RegionId) override { text += "before_backward "; }
  void after_backward(RegionId) override { text += "after_backward "; }
  void at_backward_end() override { text += "end"; }
  std::string text;
};

TEST(Autograd, HooksOfAUnitRunOnceEvenWhenItIsComputedAgain) {
  for (const char* marks : {" unit", " non_reentrant unit", " reentrant unit"}) {
    const Result<Program> forward = parse_program(mlp(marks), "fixture");
    ASSERT_TRUE(forward);
    HookLog log;
    differentiate(*forward, {}, &log);
    EXPECT_EQ(log.text, "before_forward after_forward before_backward after_backward end") << marks;
  }
}

// ---- failures ----

TEST(Autograd, AnOpWithoutARuleIsNamed) {
  Program program;
  program.is_complete = true;
  Recorder recorder(program, Recorder::Mode::kComplete);
  GradientKeeper keeper(recorder);
  const Result<Program> forward = parse_program(
      "plimsoll program 1 forward\ntensor %0:bf16[8] grad parameter\n%1:bf16[8] grad = Abs(%0) @act\n",
      "abs");
  ASSERT_TRUE(forward);
  Value x = ops::empty(recorder, {8}, DType::kBFloat16);
  program.tensors[x.id().value].requires_grad = true;
  Autograd autograd(recorder, *forward, keeper, nullptr, {});
  autograd.bind(TensorId{0}, x);
  Value root = autograd.forward(TensorId{1});
  autograd.release_locals();
  const Result<void> done = autograd.backward(std::move(root));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "the gradient of op Abs (act) has no rule");
}

}  // namespace
}  // namespace plimsoll
