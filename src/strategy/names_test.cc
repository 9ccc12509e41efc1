#include "strategy/names.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Names, HyphenAndUnderscoreAreTheSame) {
  EXPECT_EQ(from_name<Precision>("amp_bf16"), Precision::kAutocastBFloat16);
  EXPECT_EQ(from_name<AttentionImplementation>("flash-attention-2"),
            AttentionImplementation::kFlashAttention2);
  EXPECT_EQ(from_name<LossKind>("fused_linear"), LossKind::kFusedLinear);
  EXPECT_EQ(from_name<Precision>("bfloat16"), Precision::kBFloat16);
  EXPECT_EQ(from_name<Precision>("fp8"), std::nullopt);
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
  for (const char* name : {"every-", "every-1", "every--2", "every-2x", "reentrant", "full-", "Full", ""})
    EXPECT_EQ(recompute_from_name(name), std::nullopt) << name;
}

TEST(Names, EveryValueHasOne) {
  EXPECT_EQ(written_names<Framework>().size(), 5u);
  EXPECT_EQ(written_names<Precision>().size(), 5u);
  EXPECT_EQ(name_of(DataParallelEngine::kFsdp2), "fsdp2");
  EXPECT_EQ(name_of(UseCache::kConfig), "config");
  EXPECT_EQ(name_of(ZeroGrad::kSetToNone), "set-to-none");
  EXPECT_EQ(name_of(TaskChoice::kAutomatic), "automatic");
}

}  // namespace
}  // namespace plimsoll
