// Every family against the tensors that Hugging Face Transformers gives the same configuration
// (testdata/families.golden), and what the tensors don't tell: which layers have experts, windows, positions.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "importers/hf_config/hf_config.h"
#include "model/family.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;

struct Case {
  std::string config;
  std::vector<std::string> tensors;
};

std::map<std::string, Case> golden_cases() {
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/src/importers/hf_config/testdata/families.golden");
  std::map<std::string, Case> cases;
  Case* current = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("== ")) {
      current = &cases[line.substr(3)];
      std::getline(file, current->config);
    } else if (current != nullptr && !line.empty()) {
      current->tensors.push_back(line);
    }
  }
  return cases;
}

std::vector<std::string> tensors_of(const Architecture& a) {
  std::vector<std::string> lines;
  for (const ParameterTensor& p : a.parameters) {
    std::string line = fmt::format("{} [{}]", p.name, fmt::join(p.shape, ", "));
    for (const std::string& alias : p.tied_names) line += " = " + alias;
    lines.push_back(line);
  }
  for (const BufferTensor& b : a.buffers) {
    lines.push_back(fmt::format("buffer {} [{}] {}", b.name, fmt::join(b.shape, ", "), b.element_bytes));
  }
  return lines;
}

Architecture golden_architecture(const std::string& name) {
  const auto a = read_hf_config_text(golden_cases().at(name).config, name);
  EXPECT_TRUE(a) << name << ": " << a.error().to_text();
  return a ? *a : Architecture{};
}

TEST(Families, TensorsAreThoseOfTransformersInItsOrder) {
  const auto cases = golden_cases();
  ASSERT_GE(cases.size(), 50U);
  for (const auto& [name, expected] : cases) {
    EXPECT_EQ(tensors_of(golden_architecture(name)), expected.tensors) << name;
  }
}

TEST(Families, EachHasACase) {
  std::set<std::string> covered;
  for (const auto& [name, unused] : golden_cases()) covered.insert(golden_architecture(name).family);
  for (const Family& family : families())
    EXPECT_TRUE(covered.contains(std::string(family.name))) << family.name;
}

std::optional<int64_t> size_of(const Architecture& a, Dim dim) {
  if (dim == Dim::kVocab) return a.vocab;
  if (dim == Dim::kPosition) return a.position_rows;
  if (dim == Dim::kHidden && a.embedding_dim == a.hidden) return a.hidden;
  return std::nullopt;
}

TEST(Families, DimsAndSizesOfTensorsAgree) {
  for (const auto& [name, unused] : golden_cases()) {
    const Architecture a = golden_architecture(name);
    for (const ParameterTensor& p : a.parameters) {
      ASSERT_EQ(p.dims.size(), p.shape.size()) << p.name;
      for (size_t i = 0; i < p.dims.size(); ++i) {
        EXPECT_EQ(p.shape[i], size_of(a, p.dims[i]).value_or(p.shape[i])) << p.name;
      }
      EXPECT_EQ(p.is_expert, p.name.find(".experts.") != std::string::npos) << p.name;
    }
  }
}

TEST(Families, EveryLayerHasAnMlpOrExperts) {
  for (const auto& [name, unused] : golden_cases()) {
    for (const Layer& layer : golden_architecture(name).layers) {
      EXPECT_NE(layer.mlp.has_value(), layer.moe.has_value()) << name;
      EXPECT_EQ(layer.attention.heads % layer.attention.kv_heads, 0) << name;
    }
  }
}

std::vector<int64_t> windows_of(const Architecture& a) {
  std::vector<int64_t> windows;
  for (const Layer& layer : a.layers) windows.push_back(layer.attention.window.value_or(0));
  return windows;
}

Result<Architecture> with_sizes(const std::string& family, const std::string& keys) {
  return read_hf_config_text(
      fmt::format(R"({{"model_type": "{}", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6,
                      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100{}}})",
                  family, keys),
      family);
}

TEST(Families, Windows) {
  EXPECT_THAT(windows_of(*with_sizes("gemma2", R"(, "sliding_window": 8)")), ElementsAre(8, 0, 8, 0, 8, 0));
  EXPECT_THAT(windows_of(*with_sizes("gemma3_text", R"(, "sliding_window": 8)")),
              ElementsAre(8, 8, 8, 8, 8, 0));
  EXPECT_THAT(windows_of(*with_sizes("olmo3", R"(, "sliding_window": 8)")), ElementsAre(8, 8, 8, 0, 8, 8));
  EXPECT_THAT(windows_of(*with_sizes("mistral", R"(, "sliding_window": null)")),
              ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(windows_of(*with_sizes("mistral", "")), ElementsAre(4096, 4096, 4096, 4096, 4096, 4096));
  EXPECT_THAT(windows_of(*with_sizes("qwen2", R"(, "sliding_window": 8)")), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(windows_of(*with_sizes(
                  "qwen2", R"(, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 4)")),
              ElementsAre(0, 0, 0, 0, 8, 8));
}

TEST(Families, AbsentKeysThatAreAssumedAreNoted) {
  const auto a = read_hf_config_text(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 100})",
                                     "x");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->layers[0].attention.kv_heads, 4);
  EXPECT_THAT(a->notes, ElementsAre("num_key_value_heads is absent: 4 as num_attention_heads"));
  EXPECT_THAT(with_sizes("mistral", "")->notes,
              ElementsAre("sliding_window is absent: 4096 as in Transformers"));
}

TEST(Families, LatentAttention) {
  const Attention attention = golden_architecture("dsv3").layers[0].attention;
  EXPECT_EQ(attention.head_dim, 24);
  EXPECT_EQ(attention.value_head_dim, 12);
  EXPECT_EQ(attention.rotary_dim, 8);
  EXPECT_EQ(attention.latent->query_rank, 24);
}

TEST(Families, Llama4LayersWithoutPositionsSeeAll) {
  const Architecture a = golden_architecture("llama4");
  ASSERT_EQ(a.layers.size(), 5U);
  EXPECT_EQ(a.layers[3].attention.rotary_dim, 0);
  EXPECT_EQ(a.layers[3].attention.chunk, std::nullopt);
  EXPECT_EQ(a.layers[3].attention.head_norm, HeadNorm::kNone);
  EXPECT_EQ(a.layers[4].attention.chunk, 8192);
  EXPECT_EQ(a.layers[4].attention.head_norm, HeadNorm::kWithoutWeight);
}

TEST(Families, MultimodalWrappersGiveTheirLanguagePart) {
  const auto a = read_hf_config_text(R"({"model_type": "gemma3", "vision_config": {"hidden_size": 1152},
    "text_config": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100, "sliding_window": 8}})",
                                     "x");
  ASSERT_TRUE(a) << a.error().to_text();
  EXPECT_EQ(a->family, "gemma3_text");
  ASSERT_EQ(a->notes.size(), 2U);
  EXPECT_THAT(a->notes[0], testing::HasSubstr("only its language part"));
  EXPECT_EQ(a->notes[1], "outside text_config not read: vision_config");
  const auto missing = read_hf_config_text(R"({"model_type": "llama4", "text_config": {}})", "x");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, testing::HasSubstr("\"text_config.hidden_size\""));
}

TEST(Families, RoutersInFloat32AndBiasesInCheckpoints) {
  const Architecture a = golden_architecture("dsv3");
  int64_t float32 = 0;
  for (const ParameterTensor& p : a.parameters) float32 += p.is_float32 ? 1 : 0;
  EXPECT_EQ(float32, 1);
  EXPECT_EQ(a.stored_count(), a.parameter_count() + 4);  // the score bias of four experts
}

}  // namespace
}  // namespace plimsoll
