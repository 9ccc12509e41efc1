#include "hardware/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/data_dir.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A data folder of its own, and PLIMSOLL_DATA set to it while the test runs.
class OwnDataDir : public testing::Test {
 protected:
  void SetUp() override {
    const char* name = testing::UnitTest::GetInstance()->current_test_info()->name();
    const fs::path presets = data_dir();
    folder_ = fs::path(testing::TempDir()) / (std::string("plimsoll_catalog_") + name);
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "gpus");
    fs::copy(presets / "gpus" / "h100-80gb.toml", folder_ / "gpus" / "h100-80gb.toml");
    setenv("PLIMSOLL_DATA", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("PLIMSOLL_DATA");
    fs::remove_all(folder_);
  }
  // The H100's file under another name, with one text replaced.
  fs::path write_gpu(const std::string& file, const std::string& before, const std::string& after) {
    std::ifstream in(folder_ / "gpus" / "h100-80gb.toml");
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const size_t at = text.find(before);
    EXPECT_NE(at, std::string::npos);
    std::ofstream(folder_ / file) << text.replace(at, before.size(), after);
    return folder_ / file;
  }
  fs::path folder_;
};

TEST(Catalog, FindsByNameAliasAndDeviceName) {
  for (const char* name : {"h100-80gb", "h100", "H100-SXM", "h100_80gb", "NVIDIA H100 80GB HBM3"}) {
    const Result<Gpu> gpu = find_gpu(name);
    ASSERT_TRUE(gpu) << name << ": " << gpu.error().to_text();
    EXPECT_EQ(gpu->name, "h100-80gb");
  }
}

TEST(Catalog, UnknownNameTellsTheNearestOrAll) {
  const Result<Gpu> gpu = find_gpu("h10-80gb");
  ASSERT_FALSE(gpu);
  EXPECT_EQ(gpu.error().message, "there is no GPU \"h10-80gb\" in the catalog");
  EXPECT_THAT(gpu.error().hint, HasSubstr("h100-80gb"));
  EXPECT_EQ(gpu.error().expected, "a GPU of the catalog or a file (.toml)");
  EXPECT_THAT(find_gpu("zzzz").error().expected, HasSubstr("a100-40gb, a100-40gb-pcie, a100-80gb"));
  EXPECT_FALSE(find_gpu(""));
  EXPECT_FALSE(find_gpu(".."));
}

TEST(Catalog, NameOfTwoMemorySizesIsRefused) {
  const Result<Gpu> gpu = find_gpu("a100");
  ASSERT_FALSE(gpu);
  EXPECT_THAT(gpu.error().hint, HasSubstr("a100-40gb or a100-40gb-pcie or a100-80gb"));
}

TEST(Catalog, DefaultNodeIsMarkedAsAssumed) {
  const Result<Gpu> gpu = find_gpu("h100-80gb");
  ASSERT_TRUE(gpu);
  const Result<Node> node = default_node_for(*gpu);
  ASSERT_TRUE(node) << node.error().to_text();
  EXPECT_TRUE(node->is_assumed);
  EXPECT_EQ(node->gpus, 8);
  EXPECT_EQ(node->built_with.front(), "h100-80gb");
  EXPECT_EQ(node->host_memory, kGiB * 2048);
  EXPECT_FALSE(find_cluster(node->cluster)->node.is_assumed);
}

TEST_F(OwnDataDir, ReadsAUsersFileByPath) {
  const fs::path file = write_gpu("mine.toml", "name = \"h100-80gb\"", "name = \"mine\"");
  const Result<Gpu> gpu = find_gpu(file.string());
  ASSERT_TRUE(gpu) << gpu.error().to_text();
  EXPECT_EQ(gpu->name, "mine");
  EXPECT_EQ(gpu->file, file.string());
  const Result<Gpu> absent = find_gpu("./absent.toml");
  ASSERT_FALSE(absent);
  EXPECT_EQ(
      absent.error().to_text(),
      "./absent.toml: is no file\n  expected: a file that describes a GPU (docs/hardware_files.md), or a "
      "name of the catalog\n  hint: `plimsoll gpus` lists the catalog");
}

TEST_F(OwnDataDir, FileIsNamedAsItsGpu) {
  write_gpu("gpus/other.toml", "title", "title");
  const Result<Gpu> gpu = find_gpu("other");
  ASSERT_FALSE(gpu);
  EXPECT_THAT(gpu.error().to_text(), HasSubstr("expected: \"other\", the name of the file"));
}

TEST_F(OwnDataDir, NameOfTwoFilesIsRefused) {
  write_gpu("gpus/other.toml", "name = \"h100-80gb\"", "name = \"other\"");
  const Result<Gpu> gpu = find_gpu("h100");
  ASSERT_FALSE(gpu);
  EXPECT_THAT(gpu.error().message, HasSubstr("claims the name \"h100\", which"));
  EXPECT_FALSE(list_gpus());
}

TEST_F(OwnDataDir, GpuWithoutADefaultClusterSaysSo) {
  const fs::path file = write_gpu("mine.toml", "default_cluster = \"hgx-h100\"\n", "");
  const Result<Gpu> gpu = find_gpu(file.string());
  ASSERT_TRUE(gpu) << gpu.error().to_text();
  const Result<Node> node = default_node_for(*gpu);
  ASSERT_FALSE(node);
  EXPECT_THAT(node.error().message, HasSubstr("nothing is known of the node around h100-80gb"));
}

TEST_F(OwnDataDir, FolderWithoutFilesIsSaid) {
  fs::remove(folder_ / "gpus" / "h100-80gb.toml");
  const Result<Gpu> gpu = find_gpu("h100-80gb");
  ASSERT_FALSE(gpu);
  EXPECT_THAT(gpu.error().message, HasSubstr("there are no GPU files here"));
  EXPECT_THAT(gpu.error().hint, HasSubstr("PLIMSOLL_DATA"));
}

}  // namespace
}  // namespace plimsoll
