#include "model/build_architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/family.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

ConfigValue::Object small_llama() {
  const auto number = [](const char* key, int64_t value) {
    return ConfigMember{.key = key, .value = {value}};
  };
  return {{.key = "model_type", .value = {std::string("llama")}},
          number("vocab_size", 100),
          number("hidden_size", 64),
          number("intermediate_size", 96),
          number("num_hidden_layers", 3),
          number("num_attention_heads", 4),
          number("num_key_value_heads", 2)};
}

void set(ConfigValue::Object& object, const std::string& key, int64_t value) {
  for (ConfigMember& member : object) {
    if (member.key == key) member.value = {value};
  }
}

TEST(BuildArchitecture, SmallLlama) {
  const auto a = build_architecture(small_llama(), {.file = "config.json"});
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_EQ(a->name, "config.json");
  EXPECT_EQ(a->family, "llama");
  EXPECT_THAT(a->layers, SizeIs(3));
  EXPECT_THAT(a->notes, ElementsAre());
  // embedding and head, final norm; per layer q, o, k, v, the MLP's three, two norms
  EXPECT_EQ(a->parameter_count(), 2 * 100 * 64 + 64 + 3 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64 + 2 * 64));
  EXPECT_EQ(a->parameters[1].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_THAT(a->parameters[2].shape, ElementsAre(32, 64));
  EXPECT_THAT(a->parameters[2].dims, ElementsAre(Dim::kKvHeads, Dim::kHidden));
  EXPECT_EQ(a->parameters[2].layer, 0);
  EXPECT_EQ(a->parameters.back().layer, std::nullopt);
}

TEST(BuildArchitecture, KeepsTheFirstLayersOnly) {
  const auto whole = build_architecture(small_llama(), {});
  const auto cut = build_architecture(small_llama(), {.layers = 2});
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->parameters.size(), whole->parameters.size() - 9);
  EXPECT_THAT(cut->notes, ElementsAre("only the first 2 of 3 layers are kept"));
  for (int64_t wrong : {0, 4, -1}) {
    const auto refused = build_architecture(small_llama(), {.layers = wrong});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().expected, HasSubstr("from 1 to 3"));
  }
}

TEST(BuildArchitecture, WhatWouldKeepTensorsAliveIsRefused) {
  for (const char* key : {"output_attentions", "output_hidden_states"}) {
    ConfigValue::Object config = small_llama();
    config.push_back({.key = key, .value = {true}});
    const auto a = build_architecture(config, {});
    ASSERT_FALSE(a) << key;
    EXPECT_EQ(a.error().position.key, key);
    config.back().value = {false};
    EXPECT_TRUE(build_architecture(config, {}));
  }
}

TEST(BuildArchitecture, CheckpointingOfTheConfigurationIsNoted) {
  ConfigValue::Object config = small_llama();
  config.push_back({.key = "gradient_checkpointing", .value = {true}});
  EXPECT_THAT(build_architecture(config, {})->notes, ElementsAre(HasSubstr("recompute.mode = full")));
}

TEST(BuildArchitecture, TheDtypeIsWhatTheConfigurationNames) {
  const auto dtype_with = [](const char* key, const std::string& dtype) {
    ConfigValue::Object config = small_llama();
    config.push_back({.key = key, .value = {dtype}});
    return build_architecture(config, {})->published_dtype;
  };
  EXPECT_EQ(build_architecture(small_llama(), {})->published_dtype, std::nullopt);
  EXPECT_EQ(dtype_with("torch_dtype", "float32"), DType::kFloat32);
  EXPECT_EQ(dtype_with("dtype", "bfloat16"), DType::kBFloat16);
  EXPECT_EQ(dtype_with("torch_dtype", "float16"), DType::kFloat16);
  EXPECT_EQ(dtype_with("torch_dtype", "auto"), std::nullopt);
}

TEST(BuildArchitecture, TheDtypeOfAMultimodalConfigurationIsItsOwn) {
  const auto dtype_of = [](std::optional<std::string> whole, std::optional<std::string> part) {
    ConfigValue::Object text = small_llama();
    text.push_back({.key = "head_dim", .value = {int64_t{16}}});
    if (part) text.push_back({.key = "torch_dtype", .value = {*part}});
    ConfigValue::Object config{{.key = "model_type", .value = {std::string("qwen3_vl")}},
                               {.key = "text_config", .value = {text}}};
    if (whole) config.push_back({.key = "torch_dtype", .value = {*whole}});
    const auto a = build_architecture(config, {});
    EXPECT_TRUE(a) << a.error().to_text();
    return a->published_dtype;
  };
  EXPECT_EQ(dtype_of("float16", "float32"), DType::kFloat16);
  EXPECT_EQ(dtype_of("bfloat16", {}), DType::kBFloat16);
  EXPECT_EQ(dtype_of({}, "bfloat16"), DType::kBFloat16);
  EXPECT_EQ(dtype_of({}, {}), std::nullopt);
}

TEST(BuildArchitecture, WhatIsNotQuantizedIsBFloat16) {
  ConfigValue::Object config = small_llama();
  config.push_back({.key = "quantization_config", .value = {ConfigValue::Object{}}});
  EXPECT_EQ(build_architecture(config, {})->published_dtype, DType::kBFloat16);
  config.push_back({.key = "dtype", .value = {std::string("float16")}});
  EXPECT_EQ(build_architecture(config, {})->published_dtype, DType::kFloat16);
}

// Found by the fuzzer: half of one token was a window of none.
TEST(BuildArchitecture, AWindowHasATokenOnEachSide) {
  const auto error_with = [](int64_t tokens) {
    ConfigValue::Object config = small_llama();
    config[0].value = {std::string("modernbert")};
    config.push_back({.key = "local_attention", .value = {tokens}});
    const auto a = build_architecture(config, {});
    return a ? std::string() : a.error().to_text();
  };
  EXPECT_EQ(error_with(2), "");
  EXPECT_THAT(error_with(1), HasSubstr("\"local_attention\": is 1\n  expected: at least 2"));
}

TEST(BuildArchitecture, RotaryPositionsTurnPairs) {
  const auto error_with = [](double part) {
    ConfigValue::Object config = small_llama();  // heads of 16
    config[0].value = {std::string("phi")};
    config.push_back({.key = "partial_rotary_factor", .value = {part}});
    const auto a = build_architecture(config, {});
    return a ? "" : a.error().to_text();
  };
  EXPECT_EQ(error_with(0.5), "");
  EXPECT_THAT(error_with(0.2), HasSubstr("gives 3 of a head's 16 elements to rotary positions"));
  EXPECT_THAT(error_with(0.01), HasSubstr("gives 0 of a head's 16 elements"));
}

TEST(BuildArchitecture, RefusesValuesThatNoModelRunsWith) {
  const auto error_with = [](const std::string& key, ConfigValue value) {
    ConfigValue::Object config = small_llama();
    config.push_back({.key = key, .value = std::move(value)});
    const auto a = build_architecture(config, {});
    return a ? "" : a.error().to_text();
  };
  EXPECT_EQ(error_with("rms_norm_eps", {1e-5}), "");
  EXPECT_THAT(error_with("rms_norm_eps", {std::string("x")}),
              HasSubstr("\"rms_norm_eps\": is the string \"x\""));
  EXPECT_THAT(error_with("rms_norm_eps", {int64_t{-1}}), HasSubstr("expected: a number above 0"));
  EXPECT_THAT(error_with("attention_dropout", {int64_t{5}}),
              HasSubstr("expected: a probability from 0 to 1"));
  EXPECT_THAT(error_with("rope_theta", {int64_t{0}}), HasSubstr("expected: a number above 0"));
}

TEST(BuildArchitecture, RefusesMoreThanCanBeCounted) {
  ConfigValue::Object config = small_llama();
  config[0].value = {std::string("mixtral")};
  set(config, "hidden_size", kMaxHidden);
  set(config, "intermediate_size", kMaxIntermediate);
  set(config, "num_hidden_layers", kMaxLayers);
  config.push_back({.key = "num_local_experts", .value = {kMaxExperts}});
  config.push_back({.key = "num_experts_per_tok", .value = {int64_t{2}}});
  config.push_back({.key = "head_dim", .value = {int64_t{128}}});
  const auto a = build_architecture(config, {});
  ASSERT_FALSE(a);
  EXPECT_THAT(a.error().message, HasSubstr("more parameters than can be counted"));
}

TEST(BuildArchitecture, ActiveParametersCountExpertsByTheirShare) {
  ConfigValue::Object config = small_llama();
  config[0].value = {std::string("mixtral")};
  config.push_back({.key = "num_local_experts", .value = {int64_t{8}}});
  config.push_back({.key = "num_experts_per_tok", .value = {int64_t{2}}});
  const auto a = build_architecture(config, {});
  ASSERT_TRUE(a) << a.error().to_text();
  constexpr int64_t kOneExpert = int64_t{3} * 96 * 64;
  EXPECT_EQ(a->parameter_count() - a->active_parameter_count(), 3 * 6 * kOneExpert);
}

TEST(Registry, NamesAreSortedAndAliasesLead) {
  for (size_t i = 1; i < families().size(); ++i) EXPECT_LT(families()[i - 1].name, families()[i].name);
  for (const FamilyAlias& alias : family_aliases()) {
    EXPECT_EQ(find_family(alias.name), nullptr);
    EXPECT_NE(find_family(alias.family), nullptr) << alias.family;
  }
}

}  // namespace
}  // namespace plimsoll
