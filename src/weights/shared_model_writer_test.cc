// Two writers with their ranges make the files that one writer makes.
#include "weights/shared_model_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "weights/model_weights.h"
#include "weights/model_writer.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::vector<TensorSpec> kSpecs{{"a", DType::kFloat32, {3, 4}},
                                     {"b", DType::kFloat32, {0}},
                                     {"c", DType::kFloat32, {16}},
                                     {"d", DType::kFloat32, {5}}};

std::vector<std::byte> data_of(size_t tensor) {
  std::vector<std::byte> data(kSpecs[tensor].bytes());
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(tensor * 64 + i);
  return data;
}

class SharedModelWriterTest : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(ShardBytes, SharedModelWriterTest, testing::Values(1000, 100, 40));

TEST_P(SharedModelWriterTest, WritesWhatOneWriterDoes) {
  const fs::path folder = test_folder();
  fs::create_directories(folder / "one");
  fs::create_directories(folder / "two");
  auto one = ModelWriter::create(folder / "one", kSpecs, {.most_shard_bytes = GetParam()});
  ASSERT_TRUE(one) << one.error().to_text();
  auto first = SharedModelWriter::lay_out(folder / "two", kSpecs, GetParam());
  ASSERT_TRUE(first) << first.error().to_text();
  auto second = SharedModelWriter::join(folder / "two", kSpecs, GetParam());
  ASSERT_TRUE(second) << second.error().to_text();
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    const std::vector<std::byte> data = data_of(i);
    const std::span<const std::byte> all(data);
    const size_t half = all.size() / 2;
    EXPECT_TRUE(one->write(all));
    EXPECT_TRUE(second->write(i, half, all.subspan(half)));
    EXPECT_TRUE(first->write(i, 0, all.first(half)));
  }
  ASSERT_TRUE(one->finish());
  ASSERT_TRUE(first->sync());
  ASSERT_TRUE(second->sync());
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "one")) {
    ++files;
    EXPECT_EQ(bytes_of_file(folder / "two" / entry.path().filename()), bytes_of_file(entry.path()));
  }
  EXPECT_EQ(files, GetParam() == 1000 ? 1U : GetParam() == 100 ? 3U : 4U);  // with the index
}

TEST(SharedModelWriter, LaysOutOnlyNewFiles) {
  const fs::path folder = test_folder();
  ASSERT_TRUE(SharedModelWriter::lay_out(folder, kSpecs));
  EXPECT_THAT(SharedModelWriter::lay_out(folder, kSpecs).error().to_text(),
              HasSubstr("model.safetensors: can't be written: File exists"));
  EXPECT_THAT(SharedModelWriter::join(folder / "none", kSpecs).error().to_text(),
              HasSubstr("No such file or directory"));
}

TEST(SharedModelWriter, AssignedToClosesWhatItHadOpen) {
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const fs::path folder = test_folder();
  fs::create_directories(folder / "other");
  const auto before = open_files();
  {
    auto first = SharedModelWriter::lay_out(folder, kSpecs, 40);
    auto second = SharedModelWriter::lay_out(folder / "other", kSpecs, 40);
    ASSERT_TRUE(first && second);
    *first = *std::move(second);
    EXPECT_TRUE(first->write(0, 0, data_of(0)));
    EXPECT_TRUE(first->sync());
  }
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace plimsoll
