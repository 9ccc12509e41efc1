#include "program/ops.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

struct Fixture {
  Program program;
  Recorder recorder{program, Recorder::Mode::kForward};

  Value tensor(const Layout& layout, DType dtype, bool requires_grad = false) {
    return recorder.persistent(layout, dtype, Category::kInput, {}, requires_grad);
  }
};

TEST(Ops, CatIsOfTheWidestDtype) {
  Fixture f;
  const Value half = f.tensor(Layout::contiguous({2, 3}), DType::kBFloat16);
  const Value full = f.tensor(Layout::contiguous({2, 5}), DType::kFloat32);
  const Value joined = ops::cat({half, full}, 1);
  EXPECT_EQ(joined.dtype(), DType::kFloat32);
  EXPECT_EQ(joined.size(1), 8);
  EXPECT_EQ(f.program.ops.size(), 1u);  // no cast before it
}

TEST(Ops, ARangeOfEverythingIsAnAlias) {
  Fixture f;
  const Value x = f.tensor(Layout::contiguous({2, 8}), DType::kBFloat16);
  const Value all = ops::slice_or_alias(x, -1, 0, 8);
  const Value rest = ops::slice_or_alias(x, -1, 8, 0);
  EXPECT_EQ(f.program.ops[0].kind, OpKind::kAlias);
  EXPECT_EQ(f.program.ops[1].kind, OpKind::kSlice);
  EXPECT_EQ(rest.size(1), 0);
}

// The copy of an input that isn't contiguous lives within the kernel; what is kept is the input itself.
TEST(Ops, LayerNormCopiesWithinTheKernel) {
  Fixture f;
  const Value x = f.tensor(Layout::contiguous({2, 3, 4, 8}).transposed(1, 2), DType::kBFloat16, true);
  const Value weight = f.tensor(Layout::contiguous({8}), DType::kBFloat16, true);
  const Value y = ops::layer_norm(x, weight, {});
  ASSERT_EQ(f.program.ops.size(), 1u);
  EXPECT_EQ(f.program.inputs(f.program.ops[0])[0], x.id());
  EXPECT_EQ(f.program.ops[0].workspace, Bytes{2 * 3 * 4 * 8 * 2});
  EXPECT_TRUE(y.layout().is_contiguous());
}

// The engine runs the latest made first, so the weight's gradient is there before the input's.
TEST(Ops, LinearWithABiasFlattensBeforeItTransposes) {
  Fixture f;
  const Value x = f.tensor(Layout::contiguous({2, 3, 4}), DType::kBFloat16, true);
  const Value weight = f.tensor(Layout::contiguous({5, 4}), DType::kBFloat16, true);
  const Value bias = f.tensor(Layout::contiguous({5}), DType::kBFloat16, true);
  const Value y = ops::linear(x, weight, bias);
  EXPECT_EQ(f.program.ops[0].kind, OpKind::kView);
  EXPECT_EQ(f.program.ops[1].kind, OpKind::kTranspose);
  EXPECT_EQ(f.program.ops[2].kind, OpKind::kAddmm);
}

// The log-sum-exp is there for the backward only.
TEST(Ops, EfficientAttentionWithoutGradientsMakesNoLogSumExp) {
  Fixture f;
  const Layout heads = Layout::contiguous({1, 2, 16, 8});
  const Value x = f.tensor(heads, DType::kBFloat16, true);
  const Value out = ops::efficient_attention(x, x, x, {}, true, 0);
  Program played;
  Recorder complete(played, Recorder::Mode::kComplete);
  const Value again = complete.persistent(heads, DType::kBFloat16, Category::kInput, {}, true);
  const std::vector<TensorId> inputs{again.id(), again.id(), again.id()};
  const auto log_sum_exp_bytes = [&](bool is_grad_enabled) {
    const With<bool> mode(complete.is_grad_enabled, is_grad_enabled);
    std::vector<Value> results;
    complete.replay(f.program, f.program.ops[0], inputs, results);
    return played.storage_of(results[1].id()).bytes;
  };
  EXPECT_EQ(log_sum_exp_bytes(true), Bytes{2 * 32 * 4});  // rows are rounded up to 32
  EXPECT_EQ(log_sum_exp_bytes(false), Bytes{0});
}

}  // namespace
}  // namespace plimsoll
