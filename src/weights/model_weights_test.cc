#include "weights/model_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "weights/model_writer.h"
#include "weights/weights_index.h"
#include "weights/weights_test_helpers.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<TensorSpec> kSpecs = {{"wte", DType::kUInt8, {4}},
                                        {"h.0", DType::kUInt8, {3}},
                                        {"lm_head", DType::kUInt8, {9}},
                                        {"h.1", DType::kUInt8, {2}}};

fs::path sharded_model() {
  const fs::path folder = test_folder();
  auto writer = ModelWriter::create(folder, kSpecs, {.most_shard_bytes = 6});
  EXPECT_TRUE(writer) << writer.error().to_text();
  while (const TensorSpec* spec = writer->next()) {
    const std::string bytes(spec->bytes(), spec->name.back());
    EXPECT_TRUE(writer->write(std::as_bytes(std::span(bytes))));
  }
  EXPECT_TRUE(writer->finish());
  return folder;
}

std::string error_of(const fs::path& path) {
  const auto weights = ModelWeights::open(path);
  return weights ? "" : weights.error().to_text();
}

TEST(ModelWeights, ShardsAreCutAndNamedAsTransformersDoes) {
  EXPECT_THAT(cut_into_shards(kSpecs, 6), ElementsAre(0, 2, 1, 2));
  EXPECT_THAT(cut_into_shards(kSpecs, 18), ElementsAre(0, 0, 0, 0));
  const fs::path folder = sharded_model();
  EXPECT_EQ(bytes_of_file(folder / kModelIndexFile),
            "{\n  \"metadata\": {\n    \"total_size\": 18\n  },\n  \"weight_map\": {\n"
            "    \"h.0\": \"model-00003-of-00003.safetensors\",\n"
            "    \"h.1\": \"model-00003-of-00003.safetensors\",\n"
            "    \"lm_head\": \"model-00002-of-00003.safetensors\",\n"
            "    \"wte\": \"model-00001-of-00003.safetensors\"\n  }\n}\n");
  for (const fs::path& path : {folder, folder / kModelIndexFile}) {
    const auto weights = ModelWeights::open(path);
    ASSERT_TRUE(weights) << weights.error().to_text();
    EXPECT_EQ(weights->bytes(), 18u);
    EXPECT_THAT(weights->notes(), ElementsAre());
    std::string bytes(2, ' ');
    ASSERT_TRUE(weights->read(*weights->find("h.1"), 0, std::as_writable_bytes(std::span(bytes))));
    EXPECT_EQ(bytes, "11");
  }
}

TEST(ModelWeights, IndexAndShardsMustAgree) {
  const fs::path folder = sharded_model();
  auto index = *read_weights_index(folder / kModelIndexFile);
  const auto error_with = [&](const WeightsIndex& changed) {
    put(folder / kModelIndexFile, weights_index_text(changed));
    return error_of(folder);
  };
  WeightsIndex more = index;
  more.shard_of["h.2"] = index.shard_of["wte"];
  EXPECT_THAT(error_with(more), HasSubstr("key \"h.2\": is said to be in model-00001-of-00003"));
  WeightsIndex fewer = index;
  fewer.shard_of.erase("h.0");
  EXPECT_THAT(error_with(fewer), HasSubstr("key \"h.0\": isn't in "));
  WeightsIndex lost = index;
  lost.shard_of["wte"] = "model-9.safetensors";
  EXPECT_THAT(error_with(lost), HasSubstr("model-9.safetensors: can't be opened: No such file"));
  WeightsIndex outside = index;
  outside.shard_of["wte"] = "../model.safetensors";
  EXPECT_THAT(error_with(outside), HasSubstr("key \"weight_map.wte\": names no shard"));
  WeightsIndex other_size = index;
  other_size.total_bytes = 19;
  EXPECT_EQ(error_with(other_size), "");
  EXPECT_THAT(ModelWeights::open(folder)->notes(), ElementsAre(HasSubstr("total_size is 19")));
}

TEST(ModelWeights, ATensorInTwoShardsIsAnError) {
  const fs::path folder = test_folder();
  const std::string shard = image_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "A");
  put(folder / "one.safetensors", shard);
  put(folder / "two.safetensors", image_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                           R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                           "B"));
  put(folder / kModelIndexFile, R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(error_of(folder), HasSubstr("two.safetensors, key \"a\": is in one.safetensors too"));
}

TEST(ModelWeights, AFolderWithoutWeightsSaysWhatItHolds) {
  const fs::path folder = test_folder();
  put(folder / "pytorch_model.bin", "");
  EXPECT_THAT(error_of(folder), HasSubstr("safe_serialization=True"));
  put(folder / "consolidated.safetensors", "");
  EXPECT_THAT(error_of(folder), HasSubstr("such as consolidated.safetensors"));
  put(folder / kModelIndexFile, "{}");
  EXPECT_THAT(error_of(folder), HasSubstr("key \"weight_map\": is missing"));
}

TEST(ModelWeights, AModelThatIsThereIsNotWrittenOver) {
  const fs::path folder = sharded_model();
  const auto writer = ModelWriter::create(folder, kSpecs);
  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().to_text(), HasSubstr("is there already"));
  EXPECT_THAT(ModelWriter::create(folder / "absent", kSpecs).error().to_text(), HasSubstr("No such file"));
}

}  // namespace
}  // namespace plimsoll
