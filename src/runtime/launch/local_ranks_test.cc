#include "runtime/launch/local_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace plimsoll::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

LocalRanks shell(int64_t ranks, const std::string& script) {
  return {.program = "/bin/sh",
          .arguments = {"-c", script},
          .ranks = ranks,
          .grace = std::chrono::milliseconds(300)};
}

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt_name()) { fs::create_directory(path_); }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  static std::string fmt_name() { return "local_ranks_test_" + std::to_string(getpid()); }
  fs::path path_;
};

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return condition();
}
bool lives(pid_t pid) {
  return text_of("/proc/" + std::to_string(pid) + "/stat").find(") Z") == std::string::npos &&
         kill(pid, 0) == 0;
}

TEST(LocalRanks, EachKnowsItsPlace) {
  const Folder folder;
  const std::string script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE > " + (folder / "$RANK") +
                             "; [ -d $(dirname $PLIMSOLL_STORE) ] && echo $PLIMSOLL_STORE > " +
                             (folder / "store");
  EXPECT_EQ(run_local_ranks(shell(3, script)).value(), 0);
  EXPECT_EQ(text_of(folder / "0"), "0/3 0/3\n");
  EXPECT_EQ(text_of(folder / "2"), "2/3 2/3\n");
  const fs::path store = text_of(folder / "store");
  EXPECT_FALSE(store.empty());
  EXPECT_FALSE(fs::exists(store.parent_path())) << "the job's folder is left behind";
}

TEST(LocalRanks, OthersThanRank0SpeakWithTheirNumberAndOnStandardErrorOnly) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_local_ranks(shell(2, "echo out $RANK; echo err $RANK >&2; printf 'no end' >&2")).value(), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "out 0\n");
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_THAT(errors, HasSubstr("[rank 1] err 1\n"));  // rank 0's own may come between
  EXPECT_THAT(errors, HasSubstr("[rank 1] no end\n"));
  EXPECT_THAT(errors, HasSubstr("err 0\n"));
  EXPECT_THAT(errors, Not(HasSubstr("[rank 0]")));
}

TEST(LocalRanks, ARankThatDiesEndsTheJobAndIsNamed) {
  Result<int> killed, left;
  EXPECT_LT(
      seconds_of([&] { killed = run_local_ranks(shell(3, "[ $RANK = 1 ] && kill -9 $$; exec sleep 60")); }),
      10);
  ASSERT_FALSE(killed);
  EXPECT_EQ(killed.error().message, "rank 1 was ended by signal 9 (Killed)");
  EXPECT_LT(seconds_of([&] { left = run_local_ranks(shell(3, "[ $RANK = 2 ] && exit 7; exec sleep 60")); }),
            10);
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().message, "rank 2 ended with exit code 7");
}

TEST(LocalRanks, AnExitCodeThatIsExplainedIsTheJobs) {
  LocalRanks job = shell(3, "[ $RANK = 1 ] && exit 2; exec sleep 60");
  job.explained = {1, 2};
  EXPECT_EQ(run_local_ranks(job).value(), 2);
  job.explained = {1};
  const Result<int> other = run_local_ranks(job);
  ASSERT_FALSE(other);
  EXPECT_TRUE(other.error().is_internal);
}

TEST(LocalRanks, OnesThatIgnoreTheirEndAreKilledAfterTheGrace) {
  Result<int> result;
  const double seconds = seconds_of([&] {
    result =
        run_local_ranks(shell(2, "[ $RANK = 1 ] && sleep 0.5 && exit 7; trap '' TERM; sleep 60; sleep 60"));
  });
  EXPECT_EQ(result.error().message, "rank 1 ended with exit code 7");
  EXPECT_LT(seconds, 20);
}

TEST(LocalRanks, AProgramThatIsNotThereIsAnError) {
  const Result<int> result = run_local_ranks({.program = "/no/such/program", .ranks = 2});
  EXPECT_THAT(result.error().message, HasSubstr("ended with exit code 127"));
}

// A launcher in a process of its own, and the ranks' process ids.
struct Launched {
  pid_t launcher = 0;
  std::vector<pid_t> ranks;
};
// `first` has run in every rank when launch() returns.
Launched launch(const Folder& folder, const std::string& first, const std::string& script) {
  Launched job;
  job.launcher = fork();
  if (job.launcher == 0) {
    setenv("TMPDIR", (folder / "").c_str(), 1);  // a launcher that is killed leaves the job's folder
    LocalRanks ranks = shell(2, first + "; echo $$ > " + (folder / "$RANK") + "; " + script);
    ranks.grace = std::chrono::seconds(20);  // however busy the machine is
    const Result<int> code = run_local_ranks(ranks);
    _exit(code ? *code : 99);
  }
  for (const char* rank : {"0", "1"}) {
    EXPECT_TRUE(comes_true([&] { return text_of(folder / rank).ends_with('\n'); }));
    job.ranks.push_back(std::stoi(text_of(folder / rank)));
  }
  return job;
}

TEST(LocalRanks, NoneOutlivesALauncherThatIsKilled) {
  const Folder folder;
  const Launched job = launch(folder, ":", "exec sleep 60");
  EXPECT_TRUE(lives(job.ranks[0]) && lives(job.ranks[1]));
  kill(job.launcher, SIGKILL);
  waitpid(job.launcher, nullptr, 0);
  for (const pid_t rank : job.ranks) EXPECT_TRUE(comes_true([&] { return !lives(rank); }));
}

TEST(LocalRanks, ASignalGoesToEveryRank) {
  const Folder folder;
  const Launched job = launch(folder, "trap 'echo saved > " + (folder / "saved_$RANK") + "; exit 0' TERM",
                              "while :; do sleep 0.05; done");
  kill(job.launcher, SIGTERM);
  int status = 0;
  waitpid(job.launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_EQ(text_of(folder / "saved_0"), "saved\n");
  EXPECT_EQ(text_of(folder / "saved_1"), "saved\n");
}

}  // namespace
}  // namespace plimsoll::runtime
