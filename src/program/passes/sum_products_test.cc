#include "program/passes/sum_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/ops.h"
#include "program/verify.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;

struct Sum {
  DType dtype = DType::kFloat32;
  bool reads_product_again = false;
  bool is_transposed = false;  // what is added is not laid out as the product
};

// One section: a product, then the tensor it is added to, then the addition.
Program program_of(const Sum& sum) {
  Program program;
  program.is_complete = true;
  Recorder r(program, Recorder::Mode::kComplete);
  r.is_grad_enabled = false;
  {
    Value a = ops::zeros(r, {4, 3}, sum.dtype), b = ops::zeros(r, {3, 4}, sum.dtype);
    Value product = ops::mm(std::move(a), std::move(b));
    Value into = ops::view(ops::zeros(r, {16}, DType::kFloat32), {4, 4});
    if (sum.reads_product_again) into = ops::add_(std::move(into), product);
    if (sum.is_transposed) product = ops::transpose(std::exchange(product, {}), 0, 1);
    into = ops::add_(std::move(into), std::move(product));
  }
  program.sections = {{.name = "all",
                       .first_statement = 0,
                       .last_statement = static_cast<uint32_t>(program.statements.size())}};
  program.schedule = {{.phase = "all", .section = 0}};
  r.finish();
  return program;
}

std::vector<OpKind> kinds_after(const Sum& sum) {
  Program program = program_of(sum);
  EXPECT_TRUE(sum_products(program));
  const Result<void> holds = verify(program);
  EXPECT_TRUE(holds) << holds.error().to_text();
  EXPECT_EQ(program.sections[0].last_statement, program.statements.size());
  std::vector<OpKind> kinds;
  for (const Statement& s : program.statements)
    if (s.kind == StatementKind::kOp) kinds.push_back(program.ops[s.index].kind);
  return kinds;
}

constexpr OpKind kZeros = OpKind::kZeros;

TEST(SumProducts, TheTargetIsMadeFirstAndTheProductHasNoStorage) {
  EXPECT_THAT(kinds_after({}), ElementsAre(kZeros, kZeros, kZeros, OpKind::kView, OpKind::kAddmmOut));
}

TEST(SumProducts, WhatIsReadTwiceOrOfAnotherDtypeOrLayoutStays) {
  const OpKind kMm = OpKind::kMm, kView = OpKind::kView, kAdd = OpKind::kAddInPlace;
  EXPECT_THAT(kinds_after({.reads_product_again = true}),
              ElementsAre(kZeros, kZeros, kMm, kZeros, kView, kAdd, kAdd));
  EXPECT_THAT(kinds_after({.dtype = DType::kBFloat16}),
              ElementsAre(kZeros, kZeros, kMm, kZeros, kView, kAdd));
  EXPECT_THAT(kinds_after({.is_transposed = true}),
              ElementsAre(kZeros, kZeros, kMm, kZeros, kView, OpKind::kTranspose, kAdd));
}

}  // namespace
}  // namespace plimsoll
