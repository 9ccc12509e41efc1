#include "train/file_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "train/checkpoint_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileChecks : public testing::Test {
 protected:
  FileChecks() {
    for (const char* file : {"config.json", "job.toml", "text/a.txt", "held.txt", "model.safetensors"})
      put(folder_ / file, "what is here");
    request_.job_file = in("job.toml");
    job_.model.name = in("config.json");
    job_.data = {.path = in("text"), .held_out = in("held.txt")};
    job_.run.weights = in("model.safetensors");
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  std::string error() const {
    const auto done = check_files(request_, job_);
    return done ? "none" : done.error().to_text();
  }

  const fs::path folder_ = test_folder();
  TrainRequest request_;
  Job job_;
};

TEST_F(FileChecks, OutputsOfTheirOwnAreFine) {
  request_.gradients = in("gradients.safetensors");
  request_.batches = in("batches.txt");
  request_.recording = in("recording");
  job_.run.metrics = in("run.jsonl");
  job_.run.checkpoints = in("runs");
  EXPECT_EQ(error(), "none");
  job_.data = {.path = in("text/a.txt")};
  job_.run.checkpoints = in("text/runs");  // beside a file of data, not below a folder of them
  EXPECT_EQ(error(), "none");
}

TEST_F(FileChecks, AnOutputIsNoInput) {
  for (const char* input : {"config.json", "job.toml", "held.txt", "model.safetensors"}) {
    request_ = {.job_file = in("job.toml"), .gradients = in(input)};
    EXPECT_THAT(error(), HasSubstr("--dump-gradients: " + in(input) + " is the file that is read"));
    request_ = {.job_file = in("job.toml"), .batches = in(input)};
    EXPECT_THAT(error(), HasSubstr("--dump-batches: " + in(input) + " is the file that is read"));
    request_ = {.job_file = in("job.toml")};
    job_.run.metrics = in(input);
    EXPECT_THAT(error(), HasSubstr("train.metrics: " + in(input) + " is the file that is read"));
    job_.run.metrics = "";
  }
}

TEST_F(FileChecks, TwoOutputsAreTwoFiles) {
  request_.batches = job_.run.metrics = in("run.jsonl");
  EXPECT_THAT(error(), HasSubstr("is the file that --dump-batches writes"));
}

TEST_F(FileChecks, NothingIsWrittenAmongTheData) {
  job_.run.checkpoints = in("text/runs");
  EXPECT_THAT(error(),
              HasSubstr("train.checkpoints: " + in("text/runs") + " is below the folder of data.path"));
  job_.run.checkpoints = in("text/.runs");  // hidden: not read
  EXPECT_EQ(error(), "none");
  job_.run.metrics = in("text/run.jsonl");
  EXPECT_THAT(error(), HasSubstr("train.metrics: "));
  job_.run.metrics = "";
  fs::create_symlink(in("text"), folder_ / "link");
  request_.batches = in("link/batches.txt");
  EXPECT_THAT(error(), HasSubstr("--dump-batches: "));
  fs::create_symlink(in("elsewhere.txt"), folder_ / "text/b.txt");
  put(folder_ / "elsewhere.txt", "read through a link");
  request_.batches = in("elsewhere.txt");
  EXPECT_THAT(error(), HasSubstr("is the file " + in("text/b.txt") + " of data.path"));
}

TEST_F(FileChecks, StandardOutputTakesNoDump) {
  for (const char* path : {"-", "/dev/stdout", "/proc/self/fd/1"}) {
    const auto done = check_dumps({.gradients = path}, {});
    ASSERT_FALSE(done) << path;
    EXPECT_THAT(done.error().to_text(), HasSubstr("standard output is the ranks' own"));
  }
}

TEST(CheckpointFolder, IsMadeAndTriedOut) {
  const fs::path folder = test_folder();
  EXPECT_TRUE(check_is_writable(folder / "a/b/", 0));
  EXPECT_TRUE(fs::is_empty(folder / "a/b"));
  put(folder / "file", "");
  for (const fs::path& path : {folder / "file", folder / "file/b", fs::path("/proc/no_place")})
    EXPECT_FALSE(check_is_writable(path, 0)) << path;
}

}  // namespace
}  // namespace plimsoll
