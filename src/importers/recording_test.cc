#include "importers/recording.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "importers/kineto_trace/kineto_trace.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

// A file that is gone again at the end.
class WrittenFile {
 public:
  explicit WrittenFile(const std::string& bytes)
      : path_(fmt::format("{}recording_test_{}", testing::TempDir(), getpid())) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~WrittenFile() { std::filesystem::remove(path_); }
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string utf16(const std::string& ascii) {
  std::string bytes;
  for (const char c : ascii) bytes += {c, '\0'};
  return bytes;
}

const std::string kLog = "step 1\nCUDA out of memory. Tried to allocate 20.00 MiB.\n";
const std::string kTrace =
    R"({"traceEvents": [{"ph": "i", "name": "[memory]", "ts": 1, "args": {"Addr": 1, "Bytes": 2,
        "Device Type": 1, "Device Id": 0, "Total Allocated": 3, "Total Reserved": 4}}]})";

TEST(Recording, ALogInAnyEncoding) {
  for (const std::string& bytes : {kLog, utf16(kLog), "\xff\xfe" + utf16(kLog), "\xef\xbb\xbf" + kLog}) {
    const WrittenFile file(bytes);
    const Result<Recording> recording = open_recording(file.path());
    ASSERT_TRUE(recording) << recording.error().to_text();
    EXPECT_EQ(recording->format, RecordingFormat::kOutOfMemoryText);
    EXPECT_EQ(recording->text, kLog);
  }
}

TEST(Recording, ATraceInAnyEncoding) {
  for (const std::string& bytes :
       {kTrace, utf16(kTrace), "\xff\xfe" + utf16(kTrace), "\xef\xbb\xbf" + kTrace}) {
    const WrittenFile file(bytes);
    Result<Recording> recording = open_recording(file.path());
    ASSERT_TRUE(recording) << recording.error().to_text();
    ASSERT_EQ(recording->format, RecordingFormat::kKinetoTrace);
    const Result<ProfiledMemory> memory = read_kineto_trace(*recording->source, "t");
    ASSERT_TRUE(memory) << memory.error().to_text();
    EXPECT_EQ(memory->devices.at(0).instants.size(), 1U);
  }
}

// Its events begin behind what a file is told by.
TEST(Recording, ATraceThatIsToldLate) {
  const WrittenFile file("{\"a\": \"" + std::string(2 * kIdentified, 'x') + "\", " + kTrace.substr(1));
  Result<Recording> recording = open_recording(file.path());
  ASSERT_TRUE(recording) << recording.error().to_text();
  ASSERT_EQ(recording->format, RecordingFormat::kKinetoTrace);
  ASSERT_TRUE(recording->source);
  EXPECT_TRUE(read_kineto_trace(*recording->source, "t"));
}

TEST(Recording, OthersAreRefused) {
  const auto error_of = [](const std::string& bytes) {
    const WrittenFile file(bytes);
    const Result<Recording> recording = open_recording(file.path());
    return recording ? "no error" : recording.error().to_text();
  };
  EXPECT_THAT(error_of(""), HasSubstr("is empty"));
  EXPECT_THAT(error_of("\xff\xfe"), HasSubstr("is empty"));
  EXPECT_THAT(error_of(utf16("nothing of the kind")), HasSubstr("is no recording of a run's memory"));
  EXPECT_THAT(error_of(std::string("a\0\0b", 4)), HasSubstr("is no recording of a run's memory"));
}

}  // namespace
}  // namespace plimsoll
