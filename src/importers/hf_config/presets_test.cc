#include "importers/hf_config/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <regex>

namespace plimsoll {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::filesystem::path kData = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "data";

// Published totals of parameters: of the weight index on the model hub, or of the paper.
const std::map<std::string, int64_t> kPublished = {
    {"llama-3.1-8b", 8'030'261'248},
    {"llama-3.1-70b", 70'553'706'496},
    {"llama-3.1-405b", 405'853'388'800},
    {"llama-3.2-1b", 1'235'814'400},
    {"llama-3.2-3b", 3'212'749'824},
    {"llama-2-7b", 6'738'415'616},
    {"llama-2-13b", 13'015'864'320},
    {"llama-2-70b", 68'976'648'192},
    {"tinyllama-1.1b", 1'100'048'384},
    {"stablelm-2-1.6b", 1'644'515'328},
    {"mistral-7b", 7'241'732'096},
    {"mixtral-8x7b", 46'702'792'704},
    {"mixtral-8x22b", 140'630'071'296},
    {"qwen2.5-0.5b", 494'032'768},
    {"qwen2.5-7b", 7'615'616'512},
    {"qwen2.5-14b", 14'770'033'664},
    {"qwen2.5-32b", 32'763'876'352},
    {"qwen2.5-72b", 72'706'203'648},
    {"qwen3-0.6b", 596'049'920},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-32b", 32'762'123'264},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"qwen3-235b-a22b", 235'093'634'560},
    {"gemma-2-2b", 2'614'341'888},
    {"gemma-2-9b", 9'241'705'984},
    {"gemma-3-1b", 999'885'952},
    {"gpt2", 124'439'808},
    {"gpt2-xl", 1'557'611'200},
    {"pythia-6.9b", 6'857'302'016},
    {"phi-4", 14'659'507'200},
    {"phi-2", 2'779'683'840},
    {"gpt-oss-20b", 20'914'757'184},
    {"gpt-oss-120b", 116'829'156'672},
    {"deepseek-v2", 235'741'434'880},
    {"deepseek-v3", 671'026'419'200},
    {"kimi-k2", 1'026'408'232'448},
    {"olmo-2-7b", 7'298'617'344},
    {"falcon-7b", 6'921'720'704},
    {"bloom-176b", 176'247'271'424},
    {"command-r", 34'980'831'232},
    {"command-r-plus", 103'810'674'688},
    {"starcoder2-3b", 3'030'371'328},
    {"granite-3.1-2b", 2'533'531'648},
    {"gpt-neox-20b", 20'554'567'680},
    {"bert-base", 109'514'298},
    {"bloom-560m", 559'214'592},
    {"opt-350m", 331'196'416},
    {"modernbert-base", 149'655'232},
    {"modernbert-large", 395'881'664},
    {"qwen1.5-moe-a2.7b", 14'315'784'192},
};

TEST(Presets, PublishedCounts) {
  for (const auto& [name, count] : kPublished) {
    const auto a = read_preset(name, kData);
    ASSERT_TRUE(a) << a.error().to_text();
    EXPECT_EQ(a->stored_count(), count) << name;
  }
}

// "qwen3-30b-a3b" says 30e9.
TEST(Presets, EachIsReadWithoutNotesAndIsAsLargeAsItsNameSays) {
  const auto presets = list_presets(kData);
  EXPECT_GE(presets.size(), 24U);
  for (const ModelPreset& preset : presets) {
    const auto a = read_preset(preset.name, kData);
    ASSERT_TRUE(a) << a.error().to_text();
    EXPECT_EQ(a->name, preset.name);
    EXPECT_THAT(a->notes, IsEmpty()) << preset.name;
    std::smatch size;
    static const std::regex pattern("-([0-9.]+)b(-|$)");
    if (!std::regex_search(preset.name, size, pattern)) continue;
    const double billions = std::stod(size[1]);
    EXPECT_NEAR(static_cast<double>(a->parameter_count()) / 1e9 / billions, 1, 0.32) << preset.name;
  }
}

TEST(Presets, ActiveParametersOfMixtures) {
  EXPECT_NEAR(static_cast<double>(read_preset("deepseek-v3", kData)->active_parameter_count()), 37.5e9,
              0.1e9);
  EXPECT_NEAR(static_cast<double>(read_preset("mixtral-8x7b", kData)->active_parameter_count()), 12.9e9,
              0.1e9);
  EXPECT_NEAR(static_cast<double>(read_preset("qwen3-30b-a3b", kData)->active_parameter_count()), 3.3e9,
              0.1e9);
}

// With copies of embedding and head and the score bias the hub counts 684,489,845,504 and 110,468,824,832.
TEST(Presets, PredictionLayersAreCountedApart) {
  const auto with_copies = [](const Architecture& a) {
    const int64_t bias = a.layers.back().moe->experts;
    return a.stored_count() + a.prediction_parameters + bias + 2 * a.vocab * a.hidden;
  };
  EXPECT_EQ(with_copies(*read_preset("deepseek-v3", kData)), 684'489'845'504);
  EXPECT_EQ(with_copies(*read_preset("glm-4.5-air", kData)), 110'468'824'832);
  EXPECT_EQ(read_preset("kimi-k2", kData)->prediction_parameters, 0);
}

TEST(Presets, AnUnknownNameIsAnsweredWithNearOnes) {
  const auto none = find_preset("llama-3.1-8", kData);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().to_text(), HasSubstr("no model is called \"llama-3.1-8\""));
  EXPECT_THAT(none.error().hint, HasSubstr("llama-3.1-8b"));
  EXPECT_FALSE(find_preset("../gpus/a10", kData));
  EXPECT_THAT(list_presets("/nowhere"), IsEmpty());
}

TEST(Presets, AModelIsAPresetOrAPath) {
  EXPECT_EQ(read_model("gpt2", kData)->name, "gpt2");
  const std::string path = (kData / "models/gpt2.json").string();
  EXPECT_EQ(read_model(path, kData)->name, path);
  EXPECT_THAT(read_model("gpt2.json", kData).error().to_text(), HasSubstr("can't be read"));
  EXPECT_THAT(read_model(".", kData).error().to_text(), HasSubstr(".: is a folder without a config.json"));
}

TEST(Presets, TheLargestIsReadInMilliseconds) {
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(read_preset("llama-3.1-405b", kData));
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_LT(elapsed.count(), 100) << "2 ms when nothing else runs, without sanitizers";
}

}  // namespace
}  // namespace plimsoll
