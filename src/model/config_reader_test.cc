#include "model/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ConfigValue::Object object_with(std::string key, ConfigValue value) {
  return {{.key = std::move(key), .value = std::move(value), .line = 3, .column = 5}};
}

TEST(ConfigReader, NamesAllMissingKeysAtOnce) {
  const ConfigValue::Object empty;
  ConfigReader config(empty, "config.json", "text_config.");
  EXPECT_EQ(config.size("hidden_size", kMaxHidden), 1);
  EXPECT_EQ(config.size({"n_layer", "num_hidden_layers"}, kMaxLayers), 1);
  const auto error = config.problem("gpt2");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "missing keys \"text_config.hidden_size\", \"text_config.n_layer\"");
  EXPECT_EQ(error->position.key, "");  // it is about several
}

TEST(ConfigReader, AWrongValueHasItsPlace) {
  const ConfigValue::Object object = object_with("hidden_size", {int64_t{-4096}});
  ConfigReader config(object, "config.json");
  config.size("hidden_size", kMaxHidden);
  config.size("vocab_size", kMaxVocab);  // missing, but the wrong value comes first
  EXPECT_EQ(config.problem("llama")->to_text(),
            "config.json:3:5, key \"hidden_size\": is -4096\n  expected: an integer from 1 to 1048576");
}

std::string problem_of(ConfigValue value, const std::function<void(ConfigReader&)>& read) {
  const ConfigValue::Object object = object_with("key", std::move(value));
  ConfigReader config(object, "");
  read(config);
  const auto problem = config.problem("llama");
  return problem ? problem->message + ", " + problem->expected : "";
}

TEST(ConfigReader, NumbersHaveTheirDomain) {
  const auto positive = [](ConfigReader& config) { config.positive("key"); };
  const auto probability = [](ConfigReader& config) { config.probability("key", 0); };
  EXPECT_EQ(problem_of({1e-6}, positive), "");
  EXPECT_EQ(problem_of({int64_t{0}}, positive), "is 0, a number above 0");
  EXPECT_EQ(problem_of({-1e-6}, positive), "is -1e-06, a number above 0");
  EXPECT_EQ(problem_of({std::string("x")}, positive), "is the string \"x\", a number above 0");
  for (const double right : {0.0, 0.1, 1.0}) EXPECT_EQ(problem_of({right}, probability), "");
  EXPECT_EQ(problem_of({int64_t{5}}, probability), "is 5, a probability from 0 to 1");
  EXPECT_EQ(problem_of({-0.5}, probability), "is -0.5, a probability from 0 to 1");
}

TEST(ConfigReader, NullCountsAsAbsentWhereThatIsAllowed) {
  const ConfigValue::Object object = object_with("head_dim", {});
  ConfigReader config(object, "");
  EXPECT_TRUE(config.is_there("head_dim"));
  EXPECT_FALSE(config.has("head_dim"));
  EXPECT_EQ(config.optional_size("head_dim", kMaxHeadDim), std::nullopt);
  EXPECT_EQ(config.nullable_size("head_dim", kMaxHeadDim), std::nullopt);
  EXPECT_FALSE(config.has_problem());
  config.nullable_size("q_lora_rank", kMaxHidden);
  EXPECT_TRUE(config.has_problem());
}

TEST(ConfigReader, TwoNamesOfAKeyMustAgree) {
  ConfigValue::Object object = object_with("n_head", {int64_t{8}});
  object.push_back({.key = "num_attention_heads", .value = {int64_t{16}}});
  ConfigReader config(object, "");
  EXPECT_EQ(config.size({"n_head", "num_attention_heads"}, kMaxHeads), 8);
  EXPECT_THAT(config.problem("gpt2")->message, HasSubstr("but \"n_head\" is 8"));
}

TEST(ConfigReader, ContradictionsCountOnlyWhenNothingElseIsWrong) {
  const ConfigValue::Object empty;
  ConfigReader config(empty, "");
  config.contradiction("heads", "doesn't divide");
  config.size("hidden_size", kMaxHidden);
  EXPECT_THAT(config.problem("llama")->message, HasSubstr("missing key"));
}

TEST(ConfigReader, ListsUnreadKeysThatSaySomething) {
  ConfigValue::Object object = object_with("read", {int64_t{1}});
  object.push_back({.key = "off", .value = {false}});
  object.push_back({.key = "index_topk", .value = {int64_t{2048}}});
  ConfigReader config(object, "");
  config.size("read", 10);
  EXPECT_THAT(config.unread_keys(), ElementsAre("index_topk"));
}

TEST(ConfigReader, TextsOfStrangersAreCutAndPrintable) {
  EXPECT_EQ(shown_text("a\nb\x1b[0m"), "a?b?[0m");
  const std::string longest = std::string(59, 'x') + "\xC3\xA9" + "tail";  // a character across the cut
  EXPECT_EQ(shown_text(longest), std::string(59, 'x') + "...");
}

}  // namespace
}  // namespace plimsoll
