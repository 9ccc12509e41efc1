#include "program/passes/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/op.h"

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

Program three_blocks() {
  Program program;
  program.regions = {{.kind = RegionKind::kModel},
                     {.kind = RegionKind::kBlock},
                     {.kind = RegionKind::kBlock},
                     {.kind = RegionKind::kBlock},
                     {.kind = RegionKind::kHead}};
  return program;
}

std::vector<Checkpoint> marks(const Recompute& recompute) {
  Program program = three_blocks();
  const Result<void> marked = mark_recompute(program, recompute);
  EXPECT_TRUE(marked) << marked.error().to_text();
  std::vector<Checkpoint> checkpoints;
  for (const Region& region : program.regions) checkpoints.push_back(region.checkpoint);
  return checkpoints;
}

constexpr Checkpoint kNo = Checkpoint::kNone;

TEST(MarkRecompute, OnlyBlocksAreCheckpoints) {
  EXPECT_THAT(marks({.kind = RecomputeKind::kNone}), ElementsAre(kNo, kNo, kNo, kNo, kNo));
  constexpr Checkpoint kYes = Checkpoint::kNonReentrant;
  EXPECT_THAT(marks({.kind = RecomputeKind::kFull}), ElementsAre(kNo, kYes, kYes, kYes, kNo));
  constexpr Checkpoint kReentrant = Checkpoint::kReentrant;
  EXPECT_THAT(marks({.kind = RecomputeKind::kFull, .is_reentrant = true}),
              ElementsAre(kNo, kReentrant, kReentrant, kReentrant, kNo));
}

TEST(MarkRecompute, EveryNthBlockBeginsWithTheFirst) {
  constexpr Checkpoint kYes = Checkpoint::kNonReentrant;
  EXPECT_THAT(marks({.kind = RecomputeKind::kEveryNth, .every_nth = 2}),
              ElementsAre(kNo, kYes, kNo, kYes, kNo));
}

std::vector<OpKind> kept(std::vector<std::string> names) {
  Program program = three_blocks();
  EXPECT_TRUE(mark_recompute(program, {.kind = RecomputeKind::kSelective, .kept_ops = std::move(names)}));
  return program.regions[1].kept;
}

TEST(MarkRecompute, ANameWithoutOverloadKeepsTheResultsOfAllOverloads) {
  EXPECT_THAT(kept({"mul"}), ElementsAre(OpKind::kMul, OpKind::kMulScalar, OpKind::kScale));
  EXPECT_THAT(kept({"add"}), ElementsAre(OpKind::kAdd, OpKind::kAddScalar));
  EXPECT_THAT(kept({"mm"}), ElementsAre(OpKind::kMm));  // not addmm, not bmm
  EXPECT_THAT(kept({"sdpa"}), IsSupersetOf({OpKind::kFlashAttention, OpKind::kEfficientAttention}));
  EXPECT_THAT(kept({"sdpa"}), Not(Contains(OpKind::kFlashAttentionBackward)));
}

TEST(MarkRecompute, OpsThatNeverRunAreNoted) {
  Program program = three_blocks();
  program.ops = {{.kind = OpKind::kAddScalar}};
  EXPECT_TRUE(mark_recompute(program, {.kind = RecomputeKind::kSelective, .kept_ops = {"add", "gelu"}}));
  EXPECT_THAT(program.notes, ElementsAre("recompute.kept_ops: gelu does not occur in this forward"));
  Program by_default = three_blocks();
  EXPECT_TRUE(mark_recompute(by_default, {.kind = RecomputeKind::kSelective}));
  EXPECT_THAT(by_default.notes, IsEmpty());
}

TEST(MarkRecompute, AnUnknownOpIsNamed) {
  Program program = three_blocks();
  const Result<void> marked =
      mark_recompute(program, {.kind = RecomputeKind::kSelective, .kept_ops = {"matmul"}});
  ASSERT_FALSE(marked);
  EXPECT_EQ(marked.error().position.key, "recompute.kept_ops");
  EXPECT_THAT(marked.error().message, HasSubstr("matmul"));
}

}  // namespace
}  // namespace plimsoll
