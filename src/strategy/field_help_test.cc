#include "strategy/field_help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "strategy/field.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kPage = PLIMSOLL_SOURCE_DIR "/docs/job_file.md";

TEST(FieldHelp, ShowsASectionAFieldOrAll) {
  EXPECT_THAT(*job_fields_text("batch"), HasSubstr("an integer from 1 to 134217728 (tokens)"));
  EXPECT_THAT(*job_fields_text("batch"), Not(HasSubstr("hardware.gpu")));
  EXPECT_THAT(*job_fields_text("loop.clip_max_norm"), HasSubstr("default: none"));
  EXPECT_THAT(*job_fields_text(""), HasSubstr("model.overrides.KEY"));
  EXPECT_THAT(job_fields_text("batches").error().to_text(), HasSubstr("no such field"));
  const std::string all = *job_fields_text("");
  EXPECT_LT(all.find("model.overrides.KEY"), all.find("hardware.gpu\n"));  // with its section
  EXPECT_THAT(*job_fields_text("model"), HasSubstr("model.overrides.KEY"));
}

TEST(FieldHelp, EveryFieldSaysWhatItIs) {
  std::set<std::string_view> paths, finished_sections;
  std::string_view section = "\n";
  for (const Field& field : job_fields()) {
    EXPECT_FALSE(field.text.help.empty()) << field.text.path;
    EXPECT_TRUE(paths.insert(field.text.path).second) << field.text.path;
    if (field.section() == section) continue;
    EXPECT_TRUE(finished_sections.insert(field.section()).second)
        << "section in two parts: " << field.section();
    section = field.section();
  }
}

// PLIMSOLL_UPDATE_DOCS=1 writes the page anew.
TEST(FieldHelp, PageIsMadeFromTheTable) {
  if (std::getenv("PLIMSOLL_UPDATE_DOCS")) std::ofstream(kPage) << job_fields_markdown();
  std::ifstream stream(kPage);
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(page, job_fields_markdown()) << "run strategy_test with PLIMSOLL_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace plimsoll
