#include "cli/output_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

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
  std::filesystem::remove(path);
}

class OutputFolder : public testing::Test {
 protected:
  OutputFolder() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~OutputFolder() override { fs::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename().string());
    return names;
  }
  static Result<void> write(const std::string& path, const std::string& text) {
    return write_output_file(path, [&](std::ostream& out) { out << text; });
  }

  // Tests run side by side.
  const fs::path folder_ = fs::path(testing::TempDir()) / fmt::format("output_file_test_{}", getpid());
};

// A file of the name that the unfinished text once had is the user's.
TEST_F(OutputFolder, WhatLiesBesideItStays) {
  std::ofstream(in_folder("a.csv.partial")) << "the user's";
  fs::create_symlink("a.csv.partial", in_folder(fmt::format("a.csv.{}-0.partial", getpid())));
  ASSERT_TRUE(write(in_folder("a.csv"), "text"));
  EXPECT_EQ(text_of(in_folder("a.csv")), "text");
  EXPECT_EQ(text_of(in_folder("a.csv.partial")), "the user's");
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(OutputFolder, AFailureLeavesNothingBehind) {
  std::ofstream(in_folder("a.csv")) << "old";
  const auto done = write_output_file(in_folder("a.csv"), [](std::ostream& out) {
    out << "half";
    out.setstate(std::ios::failbit);
  });
  EXPECT_FALSE(done);
  EXPECT_EQ(text_of(in_folder("a.csv")), "old");
  EXPECT_EQ(files(), std::set<std::string>{"a.csv"});
}

TEST_F(OutputFolder, ALinkStaysAndWhatItLeadsToIsWritten) {
  std::ofstream(in_folder("real.csv")) << "old";
  fs::permissions(in_folder("real.csv"), fs::perms(0640));
  fs::create_symlink("real.csv", in_folder("link.csv"));
  fs::create_symlink("not_yet.csv", in_folder("dangling.csv"));
  ASSERT_TRUE(write(in_folder("link.csv"), "new"));
  ASSERT_TRUE(write(in_folder("dangling.csv"), "new"));
  EXPECT_TRUE(fs::is_symlink(in_folder("link.csv")));
  EXPECT_EQ(text_of(in_folder("real.csv")), "new");
  EXPECT_EQ(fs::status(in_folder("real.csv")).permissions(), fs::perms(0640));
  EXPECT_EQ(text_of(in_folder("not_yet.csv")), "new");
  EXPECT_EQ(files(), (std::set<std::string>{"dangling.csv", "link.csv", "not_yet.csv", "real.csv"}));
}

TEST_F(OutputFolder, TwoOutputsAreTwoFiles) {
  const auto differ = [](const std::string& trace, const std::string& snapshot) {
    const std::optional<std::string> one = trace, other = snapshot;
    return check_outputs_differ({{.name = "--trace", .path = one}, {.name = "--snapshot", .path = other}});
  };
  fs::create_symlink("a", in_folder("link"));
  EXPECT_TRUE(differ(in_folder("a"), in_folder("b")));
  EXPECT_TRUE(differ("/dev/null", "/dev/null"));
  EXPECT_FALSE(differ(in_folder("a"), in_folder("./a")));
  EXPECT_FALSE(differ(in_folder("link"), in_folder("a")));
  const auto same = differ(in_folder("a"), in_folder("a"));
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().position.file, "--snapshot");
  const std::optional<std::string> none;
  EXPECT_TRUE(
      check_outputs_differ({{.name = "--trace", .path = none}, {.name = "--snapshot", .path = none}}));
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
