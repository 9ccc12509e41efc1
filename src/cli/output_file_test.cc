#include "cli/output_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace plimsoll {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(OutputFile, IsWholeOrWhatItWasBefore) {
  const std::string path = testing::TempDir() + "output_file_test.txt";
  std::ofstream(path) << "old";
  const auto done = write_output_file(path, [&](std::ostream& out) {
    out << "new";
    EXPECT_EQ(text_of(path), "old");
  });
  ASSERT_TRUE(done) << done.error().to_text();
  EXPECT_EQ(text_of(path), "new");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  std::filesystem::remove(path);
}

TEST(OutputFile, NamesWhatCantBeWritten) {
  const auto write = [](std::ostream& out) { out << std::string(1 << 16, 'x'); };
  for (const char* path : {"/dev/full", "/no/such/folder/events.csv"}) {
    const auto done = write_output_file(path, write);
    ASSERT_FALSE(done) << path;
    EXPECT_EQ(done.error().position.file, path);
    EXPECT_FALSE(done.error().is_internal);
  }
}

}  // namespace
}  // namespace plimsoll
