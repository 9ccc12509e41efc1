// What strangers' files get to hear.
#include "importers/hf_config/hf_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "importers/hf_config/json_tree.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A small Llama with `line` as one more line, the seventh.
std::string llama_with(const std::string& line, const std::string& heads = "4") {
  return "{\"model_type\": \"llama\",\n\"vocab_size\": 100,\n\"hidden_size\": 64,\n\"intermediate_size\": "
         "96,\n"
         "\"num_hidden_layers\": 3,\n\"num_attention_heads\": " +
         heads + (line.empty() ? "" : ",\n" + line) + "}";
}

std::string refusal(const std::string& text) {
  const auto a = read_hf_config_text(text, "config.json");
  return a ? "accepted" : a.error().to_text();
}

TEST(HfConfig, RefusesWhatIsNoJson) {
  EXPECT_EQ(refusal(" \n"), "config.json: is empty\n  expected: a JSON object");
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("config.json:1:1: isn't a JSON object"));
  EXPECT_THAT(refusal("{\"model_type\": \"llama\",\n\"hidden_size\": 40"),
              HasSubstr("config.json:2:18: ends in the middle"));
  EXPECT_THAT(refusal("{\"model_type\": \"lla"), HasSubstr("ends in the middle"));
  EXPECT_THAT(refusal("{\"hidden_size\": NaN}"), HasSubstr("config.json:1:17: isn't JSON"));
  EXPECT_THAT(refusal("{\"hidden_size\": 1e999}"), HasSubstr("isn't JSON: number overflow"));
  EXPECT_THAT(refusal("{\"model_type\": \"\xff\"}"), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(refusal("{\"model_type\": \"llama\"} {}"), HasSubstr("isn't JSON"));
  EXPECT_THAT(refusal(std::string("\0\0", 2)), HasSubstr("config.json:1:1: has a byte of value 0"));
  EXPECT_THAT(refusal(std::string("{\"model_type\": \"llama\"}\n\0{", 26)),
              HasSubstr("config.json:2:1: has a byte of"));
}

TEST(HfConfig, RefusesNotesThatAreNoUtf8InUtf8) {
  for (const char c : refusal("{\"model_type\": \"\xff\"}")) EXPECT_GT(c, 0);
}

TEST(HfConfig, BoundsDepthValuesAndSize) {
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("is nested deeper than 32 levels"));
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  EXPECT_THAT(refusal(nested), HasSubstr("is nested deeper than 32 levels"));
  std::string values = "[0";
  for (size_t i = 0; i < kMaxConfigValues; ++i) values += ",0";
  EXPECT_THAT(refusal("{\"a\": " + values + "]}"), HasSubstr("holds more than 1048576 values"));
  EXPECT_THAT(refusal(std::string(kMaxConfigBytes + 1, 'x')), HasSubstr("at most 16 MiB"));
}

TEST(HfConfig, RefusesAKeyThatIsThereTwice) {
  EXPECT_EQ(refusal(llama_with("\"hidden_size\": 32")),
            "config.json:7:1, key \"hidden_size\": is there twice, first in line 3\n"
            "  expected: every key once\n  hint: remove the one that isn't meant");
}

TEST(HfConfig, NamesUnknownFamiliesAndSupportedOnes) {
  const std::string text = refusal("{\n  \"model_type\": \"mamba2\"}");
  EXPECT_THAT(text,
              HasSubstr("config.json:2:3, key \"model_type\": is \"mamba2\", a family that isn't supported"));
  EXPECT_THAT(text, HasSubstr("bert, bloom, cohere"));
  EXPECT_THAT(refusal("{\"model_type\": 3}"), HasSubstr("expected: a string"));
}

TEST(HfConfig, NamesTheFamilyThatTheClassBelongsTo) {
  const std::string text = refusal(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12})");
  EXPECT_THAT(text, HasSubstr("missing keys \"model_type\", \"vocab_size\", \"n_positions\", \"n_head\""));
  EXPECT_THAT(text, HasSubstr("for GPT2LMHeadModel the model_type is \"gpt2\""));
}

TEST(HfConfig, RefusesSizesThatCantBe) {
  const auto with_layers = [](const std::string& value) {
    return refusal(
        "{\"model_type\": \"llama\", \"vocab_size\": 100, \"hidden_size\": 64, \"intermediate_size\": 96, "
        "\"num_attention_heads\": 4, \"num_hidden_layers\": " +
        value + "}");
  };
  for (const char* value :
       {"0", "-3", "10001", "1000000000000000000", "18446744073709551616", "3.0", "\"3\"", "true", "[3]"}) {
    EXPECT_THAT(with_layers(value), HasSubstr("key \"num_hidden_layers\"")) << value;
    EXPECT_THAT(with_layers(value), HasSubstr("expected: an integer from 1 to 1024")) << value;
  }
  EXPECT_THAT(with_layers("null"), HasSubstr("missing key \"num_hidden_layers\""));
}

TEST(HfConfig, RefusesContradictions) {
  EXPECT_THAT(refusal(llama_with("", "5")), HasSubstr("is 5, which doesn't divide hidden_size 64"));
  EXPECT_THAT(refusal(llama_with("\"num_key_value_heads\": 3")),
              HasSubstr("is 3, which doesn't divide num_attention_heads 4"));
  EXPECT_THAT(refusal(llama_with("\"head_dim\": 15")), HasSubstr("rotary positions can't split"));
  EXPECT_THAT(refusal(llama_with("\"num_layers\": 3, \"rope_scaling\": {\"type\": \"curved\"}")),
              HasSubstr("key \"rope_scaling.type\": is \"curved\""));
  EXPECT_EQ(refusal(llama_with("\"head_dim\": 16", "5")), "accepted");
}

TEST(HfConfig, RefusesContradictionsAmongExpertsAndLayers) {
  const auto refused = [](const std::string& family, const std::string& keys) {
    return refusal(
        fmt::format(R"({{"model_type": "{}", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, {}}})",
                    family, keys));
  };
  EXPECT_THAT(refused("mixtral", "\"num_local_experts\": 2, \"num_experts_per_tok\": 4"),
              HasSubstr("key \"num_experts_per_tok\": is 4, but there are 2 experts"));
  EXPECT_THAT(refused("qwen2", "\"layer_types\": [\"full_attention\"]"),
              HasSubstr("has 1 entries for 3 layers"));
  EXPECT_THAT(refused("qwen2", "\"layer_types\": [\"full_attention\", \"full_attention\", \"linear\"]"),
              HasSubstr("has \"linear\" for layer 2"));
  EXPECT_THAT(refused("phi", "\"partial_rotary_factor\": 2"), HasSubstr("is 2"));
  EXPECT_THAT(refused("llama", "\"hidden_act\": \"mish\""), HasSubstr("expected: one of silu"));
}

TEST(HfConfig, NotesWhatItIgnores) {
  const auto a = read_hf_config_text(
      llama_with("\"num_key_value_heads\": 4, \"eos_token_id\": 2, \"index_topk\": 8, \"unused\": false, "
                 "\"quantization_config\": {\"quant_method\": \"fp8\"}"),
      "config.json");
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_THAT(a->notes, ElementsAre("quantization_config is ignored: parameters are counted unquantized",
                                    "key \"index_topk\" means nothing for llama and is ignored"));
}

TEST(HfConfig, ReadsAByteOrderMarkAndEscapedKeys) {
  EXPECT_EQ(refusal("\xEF\xBB\xBF" + llama_with("")), "accepted");
  EXPECT_EQ(refusal(llama_with("\"head\\u005fdim\": 16", "5")), "accepted");
}

TEST(HfConfig, Sniffs) {
  EXPECT_TRUE(sniff_hf_config(llama_with("")));
  EXPECT_TRUE(sniff_hf_config("\n {\"architectures\": []}"));
  EXPECT_FALSE(sniff_hf_config("{\"train_batch_size\": 8}"));
  EXPECT_FALSE(sniff_hf_config("model_type: llama"));
  EXPECT_FALSE(sniff_hf_config(""));
}

TEST(HfConfig, ReplacesKeys) {
  const auto layers_with = [](const ConfigOverrides& overrides) -> std::string {
    const auto a = read_hf_config_text(llama_with(""), "config.json", {.overrides = overrides});
    return a ? fmt::format("{} layers of {}", a->layers.size(), a->hidden) : a.error().to_text();
  };
  EXPECT_EQ(layers_with({{"num_hidden_layers", "5"}, {"hidden_size", "128"}}), "5 layers of 128");
  EXPECT_EQ(layers_with({{"head_dim", "8"}}), "3 layers of 64");
  EXPECT_THAT(layers_with({{"hidden_size", "\"wide\""}}), HasSubstr("key \"hidden_size\""));
  EXPECT_THAT(layers_with({{"hidden_size", "1, \"b\": 2"}}), HasSubstr("isn't JSON"));
  EXPECT_THAT(layers_with({{"hidden_size.of", "1"}}), HasSubstr("hidden_size is no object"));
}

// Nobody asks for a misspelt key: it must not go as a note. What the file has itself may be replaced by
// anything.
TEST(HfConfig, AKeyThatNobodyAsksForCannotBeAdded) {
  const auto error_of = [](const std::string& key, const std::string& value) -> std::string {
    const auto a =
        read_hf_config_text(llama_with("\"some_key\": 4"), "config.json", {.overrides = {{key, value}}});
    return a ? "none" : a.error().to_text();
  };
  EXPECT_THAT(error_of("num_hiden_layers", "2"), HasSubstr("model.overrides, key \"num_hiden_layers\""));
  EXPECT_THAT(error_of("num_hiden_layers", "2"), HasSubstr("did you mean num_hidden_layers?"));
  EXPECT_THAT(error_of("num_hiden_layers", "0"), HasSubstr("neither in the configuration"));
  EXPECT_EQ(error_of("some_key", "5"), "none");
  EXPECT_EQ(error_of("head_dim", "8"), "none");              // read where it is there
  EXPECT_EQ(error_of("transformers_version", "5"), "none");  // known to say nothing of shapes
}

TEST(HfConfig, ReadsFilesAndFolders) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "hf_config_test_model";
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder / "config.json");
  EXPECT_THAT(read_hf_config(folder).error().message, HasSubstr("a folder without a config.json"));
  std::ofstream(folder / "config.json") << llama_with("");
  const auto a = read_hf_config(folder, {.layers = 2, .name = "mine"});
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_EQ(a->name, "mine");
  EXPECT_EQ(a->layers.size(), 2U);
  EXPECT_TRUE(read_hf_config(folder / "config.json"));
  EXPECT_THAT(read_hf_config(folder / "none.json").error().to_text(), HasSubstr("can't be read"));
  EXPECT_FALSE(read_hf_config("/dev/zero"));
}

}  // namespace
}  // namespace plimsoll
