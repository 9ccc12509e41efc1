#include "importers/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

std::string gzipped(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 16;
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bytes(text.size() + 256, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

Result<std::string> text_of(const std::string& path) {
  PLIMSOLL_TRY(source, ByteSource::open(path));
  return source->take_rest(1 << 20, {.message = "too long"});
}

// What reads a pipe that holds the bytes.
Result<std::string> text_through_pipe(const std::string& bytes) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(ends[1]);
  const Result<std::string> text = text_of(fmt::format("/dev/fd/{}", ends[0]));
  close(ends[0]);
  return text;
}

TEST(ByteSource, APipeGivesEveryByte) {
  for (const std::string text : {"", "a", "ab", "abc", "a snapshot"}) {
    EXPECT_EQ(text_through_pipe(text), text);
    EXPECT_EQ(text_through_pipe(gzipped(text)), text);
  }
  EXPECT_EQ(text_through_pipe(gzipped("one, ") + gzipped("two")), "one, two");
}

TEST(ByteSource, AGzipIsWholeAndItsChecksumHolds) {
  const std::string path = fmt::format("{}byte_source_test_{}.gz", testing::TempDir(), getpid());
  const auto error_of = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const Result<std::string> text = text_of(path);
    return text ? std::string("no error") : text.error().to_text();
  };
  const std::string whole = gzipped("a snapshot");
  EXPECT_EQ(error_of(whole), "no error");
  std::string wrong = whole;
  wrong[wrong.size() - 5] ^= 1;  // of the CRC
  EXPECT_THAT(error_of(wrong), HasSubstr("the gzip stream is broken: incorrect data check"));
  EXPECT_THAT(error_of(whole.substr(0, whole.size() - 3)), HasSubstr("the gzip stream ends early"));
  std::filesystem::remove(path);
}

// So long that a thread decompresses ahead.
TEST(ByteSource, AGzipOfAnyLengthGivesEveryByteOrItsError) {
  std::string text;
  while (text.size() < (size_t{12} << 20)) text += fmt::format("{} ", text.size() * 2654435761 % 1000003);
  const std::string path = fmt::format("{}byte_source_test_{}.gz", testing::TempDir(), getpid());
  const std::string whole = gzipped(text);
  const auto read = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto source = ByteSource::open(path);
    return (*source)->take_rest(2 * text.size(), {.message = "too long"});
  };
  EXPECT_EQ(read(whole), text);
  EXPECT_EQ(read(gzipped("one, ") + whole), "one, " + text);
  const auto cut = read(whole.substr(0, whole.size() - 3));
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().to_text(), HasSubstr("the gzip stream ends early"));
  std::string wrong = whole;
  wrong[wrong.size() - 5] ^= 1;  // of the CRC
  EXPECT_FALSE(read(wrong));
  std::ofstream(path, std::ios::binary) << whole;
  for (const size_t taken : {size_t{1}, size_t{5} << 20, size_t{9} << 20}) {  // and then dropped
    const auto source = ByteSource::open(path);
    for (size_t left = taken; left > 0 && (*source)->ensure(1);)
      left -= std::min(left, (*source)->available()), (*source)->take((*source)->available());
    EXPECT_GE((*source)->offset(), taken);
    EXPECT_GT((*source)->consumed_of_file(), 0U);
  }
  std::filesystem::remove(path);
}

TEST(ByteSource, WhatCantBeOpenedIsNamed) {
  const auto error_of = [](const std::string& path) {
    const Result<std::string> text = text_of(path);
    return text ? std::string("no error") : text.error().to_text();
  };
  EXPECT_EQ(error_of(""),
            "\"\": can't be opened: No such file or directory\n  expected: a file that can be read");
  EXPECT_THAT(error_of(std::string(5000, 'a')), HasSubstr("File name too long"));
  EXPECT_THAT(error_of(testing::TempDir()), HasSubstr("is a folder"));
}

}  // namespace
}  // namespace plimsoll
