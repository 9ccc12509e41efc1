#include "base/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

namespace plimsoll {
namespace {

using testing::HasSubstr;

std::string error_of(const std::filesystem::path& path) {
  const Result<std::string> text = read_file(path, {.most_bytes = 100'000, .expected = "a table"});
  return text ? "" : text.error().to_text();
}

TEST(ReadFile, IsBoundedAndReadsFilesOnly) {
  const std::filesystem::path folder = testing::TempDir();
  const auto written = [&](size_t bytes) {
    std::ofstream(folder / "read_file_test", std::ios::binary) << std::string(bytes, 'x');
    return folder / "read_file_test";
  };
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{70'000}, size_t{100'000}}) {
    const Result<std::string> text = read_file(written(bytes), {.most_bytes = 100'000});
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, std::string(bytes, 'x'));
  }
  EXPECT_THAT(error_of(written(100'001)), HasSubstr("is longer than 100000 bytes\n  expected: a table"));
  EXPECT_THAT(error_of(folder), HasSubstr("is a folder"));
  EXPECT_THAT(error_of(folder / "absent"), HasSubstr("can't be opened"));
  EXPECT_THAT(error_of("/dev/zero"), HasSubstr("is no regular file"));
  const std::filesystem::path pipe = folder / "read_file_test_pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of(pipe), HasSubstr("is no regular file"));
  std::filesystem::remove(pipe);
  std::filesystem::remove(folder / "read_file_test");
}

}  // namespace
}  // namespace plimsoll
