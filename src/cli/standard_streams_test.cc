// What a command's answer comes to when a standard stream is closed, full or a file.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command_line.h"
#include "cli/output_file.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

const std::string kFile(200'000, 'f'), kPage = "the page\n";

// Writes a file and prints a page.
class SayCommand final : public Command {
 public:
  std::string_view name() const override { return "say"; }
  std::string_view summary() const override { return "says it"; }
  std::vector<Argument> arguments() override {
    return {{.name = "--out", .value = "FILE", .help = "a file", .target = &out_}};
  }
  Result<int> run() override {
    const std::vector<OutputOption> outputs = {{.name = "--out", .path = out_}};
    if (out_) PLIMSOLL_CHECK(write_output_file(*out_, [](std::ostream& out) { out << kFile; }));
    print_answer(kPage, false, stream_beside(outputs));
    return kAnswered;
  }

 private:
  std::optional<std::string> out_;
};

// In a process of its own, with its standard output and error at these paths; "": closed.
class StandardStreams : public testing::Test {
 protected:
  ~StandardStreams() override {
    for (const std::string& path : {out_, err_}) std::filesystem::remove(path);
  }

  static int say(const std::vector<const char*>& options, const std::string& out, const std::string& err) {
    const pid_t child = fork();
    if (child == 0) {
      lead(STDOUT_FILENO, out);
      lead(STDERR_FILENO, err);
      std::vector<const char*> arguments = {"plimsoll", "say"};
      arguments.insert(arguments.end(), options.begin(), options.end());
      std::vector<std::unique_ptr<Command>> commands;
      commands.push_back(std::make_unique<SayCommand>());
      _exit(run_command_line(static_cast<int>(arguments.size()), arguments.data(), std::move(commands)));
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    return WEXITSTATUS(status);
  }
  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const std::string out_ = fmt::format("{}standard_streams_test_{}.out", testing::TempDir(), getpid());
  const std::string err_ = fmt::format("{}standard_streams_test_{}.err", testing::TempDir(), getpid());

 private:
  static void lead(int stream, const std::string& path) {
    close(stream);
    if (path.empty()) return;
    const int opened = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (opened != stream) dup2(opened, stream), close(opened);
  }
};

TEST_F(StandardStreams, AFileOnStandardOutputHasItAlone) {
  EXPECT_EQ(say({"--out", "-"}, out_, err_), kAnswered);
  EXPECT_EQ(text_of(out_), kFile);
  EXPECT_EQ(text_of(err_), kPage);
  EXPECT_EQ(say({"--out", "/dev/stdout"}, out_, err_), kAnswered);
  EXPECT_EQ(text_of(out_), kFile + kPage);
  EXPECT_EQ(text_of(err_), "");
}

TEST_F(StandardStreams, APageThatIsLostIsNoAnswer) {
  for (const std::string out : {"", "/dev/full"}) {
    EXPECT_EQ(say({}, out, err_), kWrongInput) << out;
    EXPECT_THAT(text_of(err_), HasSubstr("plimsoll: standard output: can't be written: "));
  }
}

TEST_F(StandardStreams, AFileThatIsLostIsNoAnswer) {
  for (const std::string out : {"", "/dev/full"}) {
    EXPECT_EQ(say({"--out", "-"}, out, err_), kWrongInput) << out;
    EXPECT_THAT(text_of(err_), HasSubstr("plimsoll: standard output: can't be written: "));
    EXPECT_EQ(text_of(err_).find(kPage), std::string::npos);
  }
}

// The file is whole all the same.
TEST_F(StandardStreams, APageThatIsLostBesideAFileIsNoAnswer) {
  for (const std::string err : {"", "/dev/full"}) {
    EXPECT_EQ(say({"--out", "-"}, out_, err), kWrongInput) << err;
    EXPECT_EQ(text_of(out_), kFile);
  }
}

// Nothing was to go there.
TEST_F(StandardStreams, WithoutStandardErrorAnAnswerIsOne) {
  EXPECT_EQ(say({}, out_, ""), kAnswered);
  EXPECT_EQ(text_of(out_), kPage);
  EXPECT_EQ(say({}, "", ""), kWrongInput);
}

}  // namespace
}  // namespace plimsoll
