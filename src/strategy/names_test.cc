#include "strategy/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategy/job_file.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

TEST(Names, HyphenAndUnderscoreAreTheSame) {
  EXPECT_EQ(from_name<Precision>("amp_bf16"), Precision::kAutocastBFloat16);
  EXPECT_EQ(from_name<AttentionImplementation>("flash-attention-2"),
            AttentionImplementation::kFlashAttention2);
  EXPECT_EQ(from_name<LossKind>("fused_linear"), LossKind::kFusedLinear);
  EXPECT_EQ(from_name<Precision>("bfloat16"), Precision::kBFloat16);
  EXPECT_EQ(from_name<Precision>("fp8"), std::nullopt);
}

TEST(Names, LettersOfEitherCase) {
  EXPECT_EQ(from_name<Precision>("BF16"), Precision::kBFloat16);
  EXPECT_EQ(from_name<DataParallelEngine>("FSDP2"), DataParallelEngine::kFsdp2);
  EXPECT_EQ(optimizer_from_name("AdamW"), Optimizer{});
  EXPECT_EQ(recompute_from_name("Full"), recompute_from_name("full"));
}

TEST(Names, OptimizersAsTheTrainerNamesThem) {
  EXPECT_EQ(optimizer_from_name("adamw_torch"), optimizer_from_name("adamw"));
  EXPECT_EQ(optimizer_from_name("adamw_torch_fused"), optimizer_from_name("adamw-fused"));
  ASSERT_TRUE(optimizer_from_name("adamw_torch_fused"));
}

// A word from elsewhere gets the choice that does the same, on the command line and in a file.
TEST(Names, WordsFromElsewhereAreExplained) {
  const auto error_of = [](const char* setting) {
    Job job;
    const Result<void> applied = apply_setting(job, setting);
    return applied ? std::string("accepted") : applied.error().hint;
  };
  EXPECT_THAT(error_of("parallel.engine=zero3"), HasSubstr("fsdp2 shards"));
  EXPECT_THAT(error_of("parallel.engine=ZeRO-2"), HasSubstr("reshard_after_forward = false"));
  EXPECT_THAT(error_of("parallel.engine=zero_1"), HasSubstr("nearest is fsdp2"));
  EXPECT_THAT(error_of("parallel.engine=fsdp"), HasSubstr("fsdp2"));
  EXPECT_THAT(error_of("optimizer.name=Adam"), HasSubstr("adamw"));
  EXPECT_THAT(error_of("recompute.mode=every-N"), HasSubstr("for example every-2"));
  EXPECT_THAT(error_of("recompute.mode=every-1"), HasSubstr("from 2 to"));
  EXPECT_THAT(error_of("recompute.mode=ful"), HasSubstr("did you mean full"));
  for (const char* same : {"precision=bfloat16", "precision=float32", "precision=fp16",
                           "fsdp2.param_dtype=bfloat16", "fsdp2.param_dtype=BF16", "parallel.engine=FSDP2"})
    EXPECT_EQ(error_of(same), "accepted") << same;
}

TEST(Names, OptimizersRoundTrip) {
  for (const std::string& name : optimizer_names()) {
    const auto optimizer = optimizer_from_name(name);
    ASSERT_TRUE(optimizer) << name;
    EXPECT_EQ(name_of(*optimizer), name);
  }
  EXPECT_EQ(optimizer_from_name("adamw-foreach"), Optimizer{});
  EXPECT_EQ(optimizer_from_name("lion-foreach"), std::nullopt);
  EXPECT_EQ(optimizer_from_name("adafactor-fused"), std::nullopt);
  EXPECT_EQ(optimizer_from_name(""), std::nullopt);
}

TEST(Names, RecomputeRoundTrips) {
  for (const char* name : {"none", "full", "full-reentrant", "every-2", "every-16-reentrant", "selective"}) {
    const auto recompute = recompute_from_name(name);
    ASSERT_TRUE(recompute) << name;
    EXPECT_EQ(name_of(*recompute), name);
  }
  EXPECT_EQ(recompute_from_name("full-nonreentrant"), recompute_from_name("full"));
  for (const char* name : {"every-", "every-1", "every--2", "every-2x", "reentrant", "full-", "every-n", ""})
    EXPECT_EQ(recompute_from_name(name), std::nullopt) << name;
}

TEST(Names, EveryValueHasOne) {
  EXPECT_EQ(written_names<Framework>().size(), 5u);
  EXPECT_EQ(written_names<Precision>().size(), 6u);
  EXPECT_EQ(name_of(DataParallelEngine::kFsdp2), "fsdp2");
  EXPECT_EQ(name_of(UseCache::kConfig), "config");
  EXPECT_EQ(name_of(ZeroGrad::kSetToNone), "set-to-none");
  EXPECT_EQ(name_of(TaskChoice::kAutomatic), "automatic");
}

}  // namespace
}  // namespace plimsoll
