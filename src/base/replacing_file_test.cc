#include "base/replacing_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/test_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Result<void> write(const fs::path& path, const std::string& text) {
  PLIMSOLL_TRY(file, ReplacingFile::create(path, text.size()));
  PLIMSOLL_CHECK(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

TEST(ReplacingFile, ReplacesWhatALinkLeadsToAndKeepsItsMode) {
  const fs::path folder = test_folder();
  put(folder / "old", "before");
  fs::permissions(folder / "old", fs::perms(0640));
  fs::create_symlink("old", folder / "link");
  ASSERT_TRUE(write(folder / "link", "after"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(bytes_of_file(folder / "old"), "after");
  EXPECT_EQ(fs::status(folder / "old").permissions(), fs::perms(0640));
}

TEST(ReplacingFile, WithoutCommitTheOldFileStays) {
  const fs::path folder = test_folder();
  put(folder / "old", "before");
  {
    auto file = ReplacingFile::create(folder / "old", 5);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(std::as_bytes(std::span("after", 5))));
  }
  EXPECT_EQ(bytes_of_file(folder / "old"), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

// Links to devices: if one were replaced, it would be the link, in this folder.
TEST(ReplacingFile, DevicesAreWrittenTo) {
  const fs::path folder = test_folder();
  fs::create_symlink("/dev/null", folder / "null");
  fs::create_symlink("/dev/full", folder / "full");
  EXPECT_TRUE(write(folder / "null", "text"));
  const auto full = write(folder / "full", "text");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().to_text(), HasSubstr("full: can't be written: No space left on device"));
  EXPECT_TRUE(fs::is_symlink(folder / "null") && fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_symlink(folder / "full") && fs::is_character_file("/dev/full"));
}

TEST(ReplacingFile, PipesAreWrittenTo) {
  const fs::path pipe = test_folder() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = bytes_of_file(pipe); });
  const auto written = write(pipe, "text");
  reader.join();
  EXPECT_TRUE(written) << written.error().to_text();
  EXPECT_EQ(read, "text");
  EXPECT_TRUE(fs::is_fifo(pipe));
}

}  // namespace
}  // namespace plimsoll
