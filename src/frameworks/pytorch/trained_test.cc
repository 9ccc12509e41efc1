// Parameters that are trained and that no gradient reaches.
#include "frameworks/pytorch/trained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frameworks/pytorch/small_model.h"
#include "frameworks/pytorch/training.h"

namespace plimsoll::pytorch {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

ResolvedJob job_that_trains(std::string pattern, LossKind loss) {
  ResolvedJob job = job_of(16);
  job.loop.trainable = std::move(pattern);
  job.loss.kind = loss;
  return job;
}

// Bytes of gradients that are made anew in the first backward.
Bytes gradient_bytes(const Program& program) {
  Bytes sum;
  for (const Storage& s : program.storages)
    if (s.category == Category::kGradient) sum += s.bytes;
  return sum;
}

TEST(TrainedParameters, OnlyTheHeadIsTrainedWithLogitsWholeOrInPieces) {
  const Architecture llama = small("llama");
  for (const LossKind loss : {LossKind::kFullLogits, LossKind::kChunked}) {
    const Result<Program> program = build_training(llama, job_that_trains("lm_head", loss), {});
    ASSERT_TRUE(program) << program.error().to_text();
    EXPECT_EQ(gradient_bytes(*program), Bytes{64 * 32 * 2});  // lm_head.weight in bf16
    EXPECT_THAT(program->notes, Not(Contains(HasSubstr("get no gradient"))));
  }
}

// fused_linear_cross_entropy_forward makes grad_weight only `if input_requires_grad`.
TEST(TrainedParameters, LigersKernelDoesNotTrainTheHeadAlone) {
  const Result<Program> program =
      build_training(small("llama"), job_that_trains("lm_head", LossKind::kFusedLinear), {});
  ASSERT_FALSE(program);
  EXPECT_FALSE(program.error().is_internal);
  EXPECT_EQ(program.error().position.key, "loop.trainable");
  EXPECT_EQ(program.error().message, "1 of 1 trained parameters get no gradient (first lm_head.weight)");
  EXPECT_THAT(program.error().hint, HasSubstr("input_require_grads"));
}

TEST(TrainedParameters, LigersKernelTrainsTheHeadWhereHiddenStatesWantAGradient) {
  const Architecture llama = small("llama");
  ResolvedJob with_hook = job_that_trains("lm_head", LossKind::kFusedLinear);
  with_hook.loop.input_require_grads = true;
  for (const ResolvedJob& job : {with_hook, job_that_trains("lm_head|model.norm", LossKind::kFusedLinear)}) {
    const Result<Program> program = build_training(llama, job, {});
    ASSERT_TRUE(program) << program.error().to_text();
    EXPECT_THAT(program->notes, Not(Contains(HasSubstr("get no gradient"))));
  }
}

TEST(TrainedParameters, OneThatTheLossDoesNotReadIsANoteAndDdpWaitsForIt) {
  Architecture llama = small("llama");
  llama.parameters.push_back({.name = "unused.weight", .shape = {8}});
  ResolvedJob job = job_that_trains("unused|norm", LossKind::kFullLogits);
  const Result<Program> alone = build_training(llama, job, {});
  ASSERT_TRUE(alone) << alone.error().to_text();
  EXPECT_THAT(alone->notes, Contains("1 of 6 trained parameters get no gradient (first unused.weight): the "
                                     "optimizer leaves them out"));
  job.engine = DataParallelEngine::kDdp;
  job.mesh = {.world = 2, .data = 2, .replicate = 2};
  const Result<Program> ddp = build_training(llama, job, {});
  ASSERT_FALSE(ddp);
  EXPECT_THAT(ddp.error().message, HasSubstr("DDP waits for all of them"));
  job.ddp.find_unused_parameters = true;
  EXPECT_TRUE(build_training(llama, job, {}));
}

TEST(TrainedParameters, AStepOfTooManyStatementsIsRefusedBeforeItIsWritten) {
  ResolvedJob job = job_of(4096);
  job.loss = {.kind = LossKind::kChunked, .chunks = 4095};
  job.batch.accumulation = 16;
  job.loop.hold_outputs = true;  // every micro-batch of both iterations is written
  const Result<Program> program = build_training(small("llama"), job, {});
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("million statements"));
  EXPECT_FALSE(program.error().is_internal);
}

TEST(TrainedParameters, ALossThatDependsOnNoneOfThemHasNoBackward) {
  Architecture llama = small("llama");
  llama.parameters.push_back({.name = "unused.weight", .shape = {8}});
  const Result<Program> program = build_training(llama, job_that_trains("unused", LossKind::kFullLogits), {});
  ASSERT_FALSE(program);
  EXPECT_FALSE(program.error().is_internal);
  EXPECT_THAT(program.error().message, HasSubstr("the loss requires no gradient"));
}

}  // namespace
}  // namespace plimsoll::pytorch
