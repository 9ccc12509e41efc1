#include "train/stored_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "importers/hf_config/hf_config.h"
#include "weights/safetensors_writer.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 12, "hidden_size": 8,
  "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
  "max_position_embeddings": 16, "tie_word_embeddings": true})";

// What is said of a file with the model's parameters, each element's bytes of one value, but for `left_out`,
// and a head beside them where one is given.
std::string error_of(std::optional<char> head, const std::string& left_out = "") {
  const auto a = read_hf_config_text(kConfig, "config.json");
  EXPECT_TRUE(a) << a.error().to_text();
  const fs::path path = test_folder() / "weights.safetensors";
  std::vector<TensorSpec> specs;
  for (const ParameterTensor& p : a->parameters)
    if (p.name != left_out) specs.push_back({.name = p.name, .shape = p.shape});
  if (head) specs.push_back({.name = "lm_head.weight", .shape = {12, 8}});
  auto writer = SafetensorsWriter::create(path, specs);
  EXPECT_TRUE(writer) << writer.error().to_text();
  for (const TensorSpec& spec : specs) {
    const std::string bytes(spec.bytes(), spec.name == "lm_head.weight" ? *head : 'a');
    EXPECT_TRUE(writer->write(std::as_bytes(std::span(bytes))));
  }
  EXPECT_TRUE(writer->finish());
  const auto weights = ModelWeights::open(path);
  EXPECT_TRUE(weights) << weights.error().to_text();
  const auto source = stored_weights(*weights, *a);
  return source ? "none" : source.error().to_text();
}

// Transformers unties a head that isn't the embedding, and has another model then.
TEST(StoredWeights, ATiedHeadIsTheEmbedding) {
  EXPECT_EQ(error_of({}), "none");
  EXPECT_EQ(error_of('a'), "none");
  const std::string error = error_of('b');
  EXPECT_THAT(error, HasSubstr("weights.safetensors, key \"lm_head.weight\": differs from "
                               "model.embed_tokens.weight"));
  EXPECT_THAT(error, HasSubstr("tie_word_embeddings = false"));
}

TEST(StoredWeights, WhatIsMissingIsToldOfTheFile) {
  EXPECT_THAT(error_of({}, "model.norm.weight"),
              HasSubstr("weights.safetensors: the weights hold no tensor model.norm.weight"));
  EXPECT_EQ(error_of('b', "model.embed_tokens.weight"), "none");  // the head is both
}

}  // namespace
}  // namespace plimsoll
