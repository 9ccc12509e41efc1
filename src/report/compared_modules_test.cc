#include "report/compared_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kActivations = "activations", kParameters = "parameters";

ModuleKnowledge estimate() {
  return {.how = "as estimated",
          .known = {{{"model.layers.{}.mlp", kActivations}, kGiB * 4},
                    {{"model.layers.{}.mlp.up_proj", kActivations}, kGiB * 2},
                    {{"model.layers.{}.mlp.up_proj.weight", kParameters}, kGiB},
                    {{"lm_head", kActivations}, kGiB},
                    {{"", kActivations}, kMiB}}};
}
ModuleKnowledge recorded(std::vector<std::pair<ModuleKnowledge::Named, Bytes>> named) {
  ModuleKnowledge side{.unknown = {{kParameters, kGiB * 2}}};
  for (auto& [names, bytes] : named) side.named[names] += bytes;
  return side;
}
ModuleKnowledge::Named metadata(const std::string& text) {
  return {.names = {text}, .role = kActivations, .is_metadata = true};
}
ModuleKnowledge::Named ranges(std::vector<std::string> innermost_first) {
  return {.names = std::move(innermost_first), .role = kActivations};
}

std::vector<std::string> lines_of(const ModuleComparison& comparison) {
  std::vector<std::string> lines;
  for (const ModuleDifference& row : comparison.rows)
    lines.push_back(row.module + " " + row.role + " " + to_text(row.a) + " " + to_text(row.b));
  return lines;
}

TEST(ComparedModules, TwoSidesThatKnowTheirModules) {
  ModuleKnowledge b = estimate();
  b.how = "by simulated stacks";
  b.known[{"lm_head", kActivations}] = kGiB * 3;
  b.known.erase({"model.layers.{}.mlp.up_proj", kActivations});
  b.unknown[kActivations] = kMiB * 5;
  const ModuleComparison modules = compare_modules(estimate(), b);
  EXPECT_THAT(lines_of(modules),
              ElementsAre("lm_head activations 1.00 GiB 3.00 GiB",
                          "model.layers.{}.mlp.up_proj activations 2.00 GiB 0 B",
                          "(module not known) activations 0 B 5.00 MiB",
                          "model.layers.{}.mlp activations 4.00 GiB 4.00 GiB",
                          "model.layers.{}.mlp.up_proj.weight parameters 1.00 GiB 1.00 GiB",
                          "(model) activations 1.00 MiB 1.00 MiB"));
  EXPECT_EQ(modules.b.unknown, kMiB * 5);
}

TEST(ComparedModules, UserMetadataThatIsAModule) {
  const ModuleComparison modules =
      compare_modules(estimate(), recorded({{metadata("model.layers.0.mlp.up_proj"), kGiB},
                                            {metadata("model.layers.1.mlp.up_proj"), kGiB},
                                            {metadata("model.layers.1.mlp"), kGiB * 5},
                                            {metadata("step 3"), kMiB}}));
  EXPECT_EQ(modules.a.how, "as estimated");
  EXPECT_EQ(modules.b.how, "by user metadata");
  EXPECT_EQ(modules.b.known, kGiB * 7);
  EXPECT_EQ(modules.b.unknown, kGiB * 2 + kMiB);
  EXPECT_THAT(
      lines_of(modules),
      ElementsAre("model.layers.{}.mlp activations 4.00 GiB 5.00 GiB", "lm_head activations 1.00 GiB 0 B",
                  "(model) activations 1.00 MiB 0 B", "(module not known) activations 0 B 1.00 MiB",
                  "model.layers.{}.mlp.up_proj activations 2.00 GiB 2.00 GiB"));
  // Its parameters were made before names were set.
  EXPECT_THAT(modules.other_roles, ElementsAre(kParameters));
}

// The innermost range that is one; of FSDP2 the module in brackets; behind PyTorch's wrappers.
TEST(ComparedModules, RangesThatAreModules) {
  const ModuleComparison modules =
      compare_modules(estimate(), recorded({{ranges({"attention scores", "lm_head", "train"}), kGiB},
                                            {ranges({"FSDP::pre_forward (model.layers.7)"}), kGiB * 3},
                                            {ranges({"module._orig_mod.model.layers.7"}), kGiB * 3}}));
  EXPECT_EQ(modules.b.how, "by record_function() ranges");
  // The layer is the finest that is named, so what the estimate has within counts to it.
  EXPECT_THAT(lines_of(modules),
              ElementsAre("(model) activations 1.00 MiB 0 B", "model.layers.{} activations 6.00 GiB 6.00 GiB",
                          "lm_head activations 1.00 GiB 1.00 GiB"));
}

TEST(ComparedModules, WhatIsNoModuleIsNeverMadeOne) {
  for (const char* name : {"mlp", "layers.0.mlp", "model.layers.0.mlp.up_proj.bias", "model.layer", "LM_HEAD",
                           "forward", "", "up_proj", "model.layers.x.mlp", "lm_head.weight"}) {
    const ModuleComparison modules = compare_modules(
        estimate(), recorded({{metadata(name), kGiB}, {ranges({name, "train", "ProfilerStep#3"}), kGiB}}));
    EXPECT_FALSE(modules.is_known()) << name;
    EXPECT_THAT(modules.b.how, IsEmpty()) << name;
    EXPECT_EQ(modules.b.unknown, kGiB * 4) << name;
    EXPECT_EQ(modules.b.known, Bytes{}) << name;
  }
}

TEST(ComparedModules, TheSidesMayChangePlaces) {
  const ModuleComparison modules = compare_modules(recorded({{metadata("lm_head"), kGiB * 2}}), estimate());
  EXPECT_EQ(modules.a.how, "by user metadata");
  EXPECT_THAT(lines_of(modules), testing::Contains("lm_head activations 2.00 GiB 1.00 GiB"));
}

TEST(ComparedModules, TwoRecordingsKnowNone) {
  const ModuleKnowledge side = recorded({{metadata("lm_head"), kGiB}});
  EXPECT_FALSE(compare_modules(side, side).is_known());
}

}  // namespace
}  // namespace plimsoll
