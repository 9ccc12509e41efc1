#include "base/module_path.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(ModulePath, NumbersAreFolded) {
  EXPECT_EQ(folded_module("model.layers.31.mlp.experts.7.up_proj"), "model.layers.{}.mlp.experts.{}.up_proj");
  EXPECT_EQ(folded_module("conv1.layer2"), "conv1.layer2");
  EXPECT_EQ(folded_module("model.layers.{}.mlp"), "model.layers.{}.mlp");
  EXPECT_EQ(folded_module("0"), "{}");
  EXPECT_EQ(folded_module(""), "");
}

TEST(ModulePath, WrappersAddParts) {
  EXPECT_EQ(unwrapped_module("module._orig_mod.layers.0._checkpoint_wrapped_module.mlp"), "layers.0.mlp");
  EXPECT_EQ(unwrapped_module("_fsdp_wrapped_module.lm_head"), "lm_head");
  EXPECT_EQ(unwrapped_module("model.modules.0"), "model.modules.0");
  EXPECT_EQ(unwrapped_module("encoder.module.0"), "encoder.module.0");
  EXPECT_EQ(unwrapped_module("module"), "");
}

TEST(ModulePath, Parents) {
  EXPECT_EQ(parent_module("model.layers.{}.mlp"), "model.layers.{}");
  EXPECT_EQ(parent_module("lm_head"), "");
  EXPECT_EQ(parent_module(""), "");
}

}  // namespace
}  // namespace plimsoll
