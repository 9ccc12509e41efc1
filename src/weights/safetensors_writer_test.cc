#include "weights/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/test_folder.h"
#include "weights/safetensors_file.h"
#include "weights/weights_test_helpers.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

Result<void> write_floats(const fs::path& path, int64_t count) {
  PLIMSOLL_TRY(writer, SafetensorsWriter::create(path, {{"a", DType::kFloat32, {count}}}));
  PLIMSOLL_CHECK(writer.write(bytes_of(std::string(static_cast<size_t>(count) * 4, 'A'))));
  return writer.finish();
}

const std::vector<TensorSpec> kSpecs = {{"b", DType::kFloat32, {}}, {"a", DType::kBFloat16, {2, 1}}};

TEST(SafetensorsWriter, WritesWhatTheReferenceWrites) {
  const fs::path path = test_folder() / "model.safetensors";
  auto writer = SafetensorsWriter::create(path, in_reference_order({kSpecs[1], kSpecs[0]}));
  ASSERT_TRUE(writer) << writer.error().to_text();
  for (const char* piece : {"ABC", "", "DEFGH"}) ASSERT_TRUE(writer->write(bytes_of(piece)));
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(
      bytes_of_file(path),
      image_of(
          R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]}})"
          "    ",
          "ABCDEFGH"));
}

TEST(SafetensorsWriter, RefusesWhatNoFileCanHold) {
  const fs::path path = test_folder() / "model.safetensors";
  const auto error = [&](const std::vector<TensorSpec>& specs) {
    return SafetensorsWriter::create(path, specs).error().to_text();
  };
  EXPECT_THAT(error({kSpecs[0], kSpecs[0]}), HasSubstr("key \"b\": is there twice"));
  EXPECT_THAT(error({{"__metadata__", DType::kFloat32, {}}}), HasSubstr("can't be a tensor's name"));
  EXPECT_THAT(error({{"a", DType::kFloat32, {-1}}}), HasSubstr("negative"));
  EXPECT_THAT(error({{"a", DType::kFloat32, {int64_t{1} << 40, int64_t{1} << 40}}}), HasSubstr("too large"));
  EXPECT_EQ(files_in(path.parent_path()), 0u);
}

TEST(SafetensorsWriter, AFullDiskLeavesTheOldFileWhole) {
  const fs::path path = test_folder() / "model.safetensors";
  put(path, "old");
  // A bound on the size of files stands for a full disk: the same calls fail, with another reason.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Result<void> written = write_floats(path, 4096);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().to_text(),
              AllOf(HasSubstr(path.string() + ": can't be written: File too large"),
                    HasSubstr("bytes were written"), HasSubstr("the file that was there is as it was")));
  EXPECT_EQ(bytes_of_file(path), "old");
  EXPECT_EQ(files_in(path.parent_path()), 1u);
}

TEST(SafetensorsWriter, AKillLeavesTheOldFileWhole) {
  const fs::path path = test_folder() / "model.safetensors";
  put(path, "old");
  const pid_t child = fork();
  if (child == 0) {
    auto writer = SafetensorsWriter::create(path, kSpecs);
    const bool is_fine = writer && writer->write(bytes_of("ABCDEFGH")) && writer->sync();
    if (is_fine) kill(getpid(), SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(bytes_of_file(path), "old");
}

}  // namespace
}  // namespace plimsoll
