// Configurations as people publish them, where the folder shared/ is beside the sources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "importers/hf_config/hf_config.h"
#include "model/family.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

const std::filesystem::path kInputs = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "../shared/inputs";

bool is_supported(const std::string& model_type) {
  for (const FamilyAlias& alias : family_aliases()) {
    if (alias.name == model_type) return true;
  }
  return find_family(model_type) != nullptr;
}

TEST(SharedInputs, ParameterCounts) {
  std::ifstream table(kInputs / "param_counts.csv");
  if (!table) GTEST_SKIP() << "no " << kInputs;
  std::string line;
  std::getline(table, line);
  int compared = 0;
  while (std::getline(table, line)) {
    std::istringstream row(line);
    std::string folder, file, model_type, count;
    std::getline(row, folder, ',');
    std::getline(row, file, ',');
    std::getline(row, model_type, ',');
    std::getline(row, count, ',');
    if (count.empty() || !is_supported(model_type)) continue;
    const auto a = read_hf_config(kInputs / folder / file);
    ASSERT_TRUE(a) << a.error().to_text();
    EXPECT_EQ(a->stored_count(), std::stoll(count)) << folder << "/" << file;
    ++compared;
  }
  EXPECT_GE(compared, 59);
}

TEST(SharedInputs, IncompleteOnesAreRefusedWithWhatIsMissing) {
  if (!std::filesystem::exists(kInputs)) GTEST_SKIP() << "no " << kInputs;
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kInputs / "hf_config_partial")) {
    const auto a = read_hf_config(entry.path());
    ASSERT_FALSE(a) << entry.path();
    EXPECT_THAT(a.error().message, HasSubstr("missing key")) << entry.path();
    EXPECT_THAT(a.error().message, HasSubstr("\"model_type\"")) << entry.path();
    EXPECT_THAT(a.error().to_text(), HasSubstr(entry.path().filename().string()));
    ++refused;
  }
  EXPECT_EQ(refused, 16);
}

TEST(SharedInputs, EveryOtherOneIsReadOrItsFamilyIsUnknown) {
  if (!std::filesystem::exists(kInputs)) GTEST_SKIP() << "no " << kInputs;
  for (const char* folder : {"hf_config", "hf_config_derived"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kInputs / folder)) {
      const auto a = read_hf_config(entry.path());
      const std::string refusal = a ? "isn't supported" : a.error().to_text();
      EXPECT_THAT(refusal, testing::AnyOf(HasSubstr("isn't supported"), HasSubstr("isn't JSON")));
    }
  }
}

}  // namespace
}  // namespace plimsoll
