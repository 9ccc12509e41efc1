#include "cli/output_file.h"

#include <fcntl.h>
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
    return check_outputs({{.name = "--trace", .path = one}, {.name = "--snapshot", .path = other}}, {});
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
      check_outputs({{.name = "--trace", .path = none}, {.name = "--snapshot", .path = none}}, {"a"}));
}

TEST_F(OutputFolder, WhatIsReadIsNotWritten) {
  const std::optional<std::string> out = in_folder("./a");
  const auto check = [&](const std::string& input) {
    return check_outputs({{.name = "--out", .path = out}}, {"gpt2", input});
  };
  EXPECT_TRUE(check(in_folder("a")));  // neither is there
  std::ofstream(in_folder("a")) << "snapshot";
  std::ofstream(in_folder("b")) << "snapshot";
  fs::create_symlink("a", in_folder("link"));
  EXPECT_TRUE(check(in_folder("b")));
  for (const char* name : {"a", "link"}) {
    const auto same = check(in_folder(name));
    ASSERT_FALSE(same) << name;
    EXPECT_EQ(same.error().to_text(), fmt::format("--out: {} is the file that is read\n"
                                                  "  expected: a file of its own",
                                                  *out));
  }
}

TEST_F(OutputFolder, ADashIsStandardOutputForEachOption) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  testing::internal::CaptureStdout();
  std::fputs("before ", stdout);
  const auto done = write("-", "text");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "before text");
  EXPECT_TRUE(done) << done.error().to_text();
  EXPECT_TRUE(files().empty());
  std::ofstream("-") << "a file of that name";
  const std::optional<std::string> dash = "-", named = "./-", none, standard = "/dev/stdout";
  const auto check = [](const std::optional<std::string>& trace, const std::optional<std::string>& out) {
    return check_outputs({{.name = "--trace", .path = trace}, {.name = "--out", .path = out}}, {"./-"});
  };
  EXPECT_TRUE(check(dash, none));
  EXPECT_FALSE(check(dash, dash));
  EXPECT_FALSE(check(standard, dash));
  EXPECT_FALSE(check(named, none));  // the file is read
  EXPECT_EQ(stream_beside({{.name = "--trace", .path = none}, {.name = "--out", .path = dash}}), stderr);
  EXPECT_EQ(stream_beside({{.name = "--trace", .path = none}, {.name = "--out", .path = standard}}), stdout);
  fs::current_path(before);
}

TEST_F(OutputFolder, AnOpenFileIsWrittenWhereItStands) {
  const int descriptor = open(in_folder("page").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::write(descriptor, "before ", 7), 7);
  for (const char* folder : {"/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"}) {
    const auto done = write(fmt::format("{}/{}", folder, descriptor), "table ");
    ASSERT_TRUE(done) << done.error().to_text();
  }
  fs::create_symlink(fmt::format("/dev/fd/{}", descriptor), in_folder("link"));
  ASSERT_TRUE(write(in_folder("link"), "linked "));
  ASSERT_EQ(::write(descriptor, "after", 5), 5);
  close(descriptor);
  EXPECT_EQ(text_of(in_folder("page")), "before table table table linked after");
  EXPECT_FALSE(write(fmt::format("/dev/fd/{}", descriptor), "closed"));
}

TEST_F(OutputFolder, APipeIsWritten) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_TRUE(write(fmt::format("/dev/fd/{}", ends[1]), "text"));
  close(ends[1]);
  char read[8];
  EXPECT_EQ(::read(ends[0], read, sizeof(read)), 4);
  close(ends[0]);
}

TEST_F(OutputFolder, LinksWithoutEndStayAndAreAnError) {
  fs::create_symlink("q2", in_folder("q1"));
  fs::create_symlink("q1", in_folder("q2"));
  const auto done = write(in_folder("q1"), "text");
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("Too many levels of symbolic links"), std::string::npos);
  EXPECT_TRUE(fs::is_symlink(in_folder("q1")));
  EXPECT_EQ(files(), (std::set<std::string>{"q1", "q2"}));
}

TEST_F(OutputFolder, ARunThatIsKilledLeavesNothing) {
  const int probe = open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (probe == -1) GTEST_SKIP() << "the file system has no files without a name";
  close(probe);
  ASSERT_TRUE(write_output_file(in_folder("a.csv"), [&](std::ostream& out) {
    out << "half";
    out.flush();
    EXPECT_EQ(files(), std::set<std::string>());
  }));
  EXPECT_EQ(files(), std::set<std::string>{"a.csv"});
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
