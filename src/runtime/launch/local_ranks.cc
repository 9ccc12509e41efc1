#include "runtime/launch/local_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "runtime/launch/process_place.h"

namespace plimsoll::runtime {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

tl::unexpected<Error> failed(std::string_view what) {
  return fail({.message = fmt::format("{}: {}", what, std::strerror(errno)), .is_internal = true});
}

// A folder for the ranks' rendezvous, gone with this object.
class Folder {
 public:
  Folder() {
    std::error_code problem;
    const fs::path place = fs::temp_directory_path(problem);
    if (problem) {
      why_ = problem.message();
      return;
    }
    std::string name = (place / "plimsoll-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr)
      path_ = name;
    else
      why_ = std::strerror(errno);
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }  // empty: it couldn't be made
  const std::string& why() const { return why_; }

 private:
  fs::path path_;
  std::string why_;
};

// The signals that a launcher handles, kept from ending it, as a file to poll.
class Signals {
 public:
  Signals() : set_(handled()), before_(block(set_)), file_(signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK)) {}
  ~Signals() {
    close(file_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int file() const { return file_; }
  const sigset_t& before() const { return before_; }
  // The next that has come but SIGCHLD.
  std::optional<int> next() const {
    signalfd_siginfo info{};
    while (read(file_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    return std::nullopt;
  }

 private:
  static sigset_t handled() {
    sigset_t set{};
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
    return set;
  }
  static sigset_t block(const sigset_t& set) {
    sigset_t before{};
    sigprocmask(SIG_BLOCK, &set, &before);
    return before;
  }

  sigset_t set_, before_;
  int file_;
};

// What a process needs between fork and exec, where nothing may be allocated.
struct Command {
  Command(const LocalRanks& job, int64_t rank, const std::string& store) : program(job.program) {
    texts.push_back(job.program);
    texts.insert(texts.end(), job.arguments.begin(), job.arguments.end());
    const size_t arguments = texts.size();
    Environment all = environment();
    all.insert_or_assign("RANK", fmt::format("{}", rank));
    all.insert_or_assign("LOCAL_RANK", fmt::format("{}", rank));
    all.insert_or_assign("WORLD_SIZE", fmt::format("{}", job.ranks));
    all.insert_or_assign("LOCAL_WORLD_SIZE", fmt::format("{}", job.ranks));
    all.insert_or_assign("PLIMSOLL_STORE", store);
    for (const auto& [name, value] : all) texts.push_back(fmt::format("{}={}", name, value));
    for (size_t i = 0; i < texts.size(); ++i) (i < arguments ? argv : envp).push_back(texts[i].data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }
  const std::string& program;
  std::vector<std::string> texts;
  std::vector<char*> argv, envp;
};

struct Child {
  int64_t rank = 0;
  pid_t pid = 0;
  int errors = -1;   // what it writes to standard error; -1: nothing more comes, or it has the terminal
  std::string line;  // of that, not ended yet
  bool is_running = false;
};

struct Failure {
  int status = 0;
  Error error;
};

std::optional<Failure> failure_of(int64_t rank, int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return Failure{
        .status = status,
        .error = {
            .message = fmt::format("rank {} was ended by signal {} ({})", rank, signal, strsignal(signal)),
            .hint = signal == SIGKILL ? "the kernel does that too when the machine's memory is full" : "",
            .is_internal = true}};
  }
  if (WEXITSTATUS(status) != 0)
    return Failure{
        .status = status,
        .error = {.message = fmt::format("rank {} ended with exit code {}", rank, WEXITSTATUS(status)),
                  .is_internal = true}};
  return std::nullopt;
}

class Launcher {
 public:
  explicit Launcher(const LocalRanks& job) : job_(job) {}
  ~Launcher() {
    for (const Child& child : children_) {
      if (child.errors >= 0) close(child.errors);
      if (!child.is_running) continue;
      kill(-child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  Result<int> run() {
    if (folder_.path().empty())
      return fail({.position = {.file = "environment", .key = "TMPDIR"},
                   .message = fmt::format("the folder where the ranks meet can't be made: {}", folder_.why()),
                   .expected = "a folder that may be written to, or no TMPDIR for /tmp"});
    for (int64_t rank = 0; rank < job_.ranks; ++rank) PLIMSOLL_CHECK(start(rank));
    while (running() > 0) {
      wait_for_news();
      while (const std::optional<int> signal = signals_.next()) forward(*signal);
      reap();
      if (kill_at_ && Clock::now() >= *kill_at_) send(SIGKILL);
    }
    for (Child& child : children_) pass_on(child);
    if (signal_) return 128 + *signal_;
    if (!failure_) return 0;
    const bool is_explained =
        WIFEXITED(failure_->status) &&
        std::ranges::find(job_.explained, WEXITSTATUS(failure_->status)) != job_.explained.end();
    if (is_explained) return WEXITSTATUS(failure_->status);
    return fail(failure_->error);
  }

 private:
  Result<void> start(int64_t rank) {
    Command command(job_, rank, (folder_.path() / "store").string());
    std::array<int, 2> pipe{-1, -1};
    if (rank > 0 && pipe2(pipe.data(), O_CLOEXEC) != 0) return failed("pipe");
    if (rank > 0) fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) become(command, parent, pipe[1]);
    if (pid > 0) setpgid(pid, pid);  // here and there: whoever comes first
    if (pipe[1] >= 0) close(pipe[1]);
    children_.push_back({.rank = rank, .pid = pid, .errors = pipe[0], .is_running = pid > 0});
    if (pid < 0) return failed(fmt::format("rank {} can't be started", rank));
    return {};
  }

  // In the child. A process group of its own: what a terminal sends comes through the launcher only.
  [[noreturn]] void become(Command& command, pid_t parent, int errors) const {
    constexpr int kNotFound = 127;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNotFound);
    sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    if (errors >= 0) {
      dup2(nothing, STDOUT_FILENO);
      dup2(errors, STDERR_FILENO);
    }
    execve(command.program.c_str(), command.argv.data(), command.envp.data());
    dprintf(STDERR_FILENO, "%s: %s\n", command.program.c_str(), strerror(errno));
    _exit(kNotFound);
  }

  int64_t running() const {
    return std::count_if(children_.begin(), children_.end(), [](const Child& c) { return c.is_running; });
  }
  void wait_for_news() {
    std::vector<pollfd> files{{.fd = signals_.file(), .events = POLLIN}};
    for (const Child& child : children_) files.push_back({.fd = child.errors, .events = POLLIN});
    int wait_ms = -1;
    if (kill_at_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*kill_at_ - Clock::now());
      wait_ms = static_cast<int>(std::max<int64_t>(0, left.count() + 1));
    }
    if (poll(files.data(), files.size(), wait_ms) <= 0) return;
    for (size_t i = 0; i < children_.size(); ++i)
      if (files[i + 1].revents != 0) pass_on(children_[i]);
  }

  // All that is there. Something that the rank started may hold its end open longer: nobody waits for that.
  void pass_on(Child& child) {
    if (child.errors < 0) return;
    std::array<char, 4096> bytes{};
    ssize_t count = 0;
    while ((count = read(child.errors, bytes.data(), bytes.size())) > 0)
      child.line.append(bytes.data(), static_cast<size_t>(count));
    const bool is_open = count < 0 && (errno == EAGAIN || errno == EINTR);
    for (size_t end = child.line.find('\n'); end != std::string::npos; end = child.line.find('\n'))
      write_line(child, end + 1);
    if (is_open && child.is_running) return;
    if (!child.line.empty()) write_line(child, child.line.size());
    close_output(child);
  }
  static void write_line(Child& child, size_t bytes) {
    const std::string_view text(child.line.data(), bytes);
    fmt::print(stderr, "[rank {}] {}{}", child.rank, text, text.ends_with('\n') ? "" : "\n");
    child.line.erase(0, bytes);
  }
  static void close_output(Child& child) {
    close(child.errors);
    child.errors = -1;
  }

  void reap() {
    std::optional<Failure> by_signal, by_code;
    for (Child& child : children_) {
      int status = 0;
      if (!child.is_running || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.is_running = false;
      if (!failure_of(child.rank, status)) continue;
      std::optional<Failure>& first = WIFSIGNALED(status) ? by_signal : by_code;
      if (!first) first = failure_of(child.rank, status);
    }
    if (!by_signal && !by_code) return;
    // Those that fail because another was killed are often reaped together with it.
    if (!failure_) failure_ = by_signal ? by_signal : by_code;
    end_others();
  }

  void end_others() {
    if (kill_at_ || running() == 0) return;
    send(SIGTERM);
    kill_at_ = Clock::now() + job_.grace;
  }

  void forward(int signal) {
    const bool is_second = signal_.has_value();
    signal_ = signal;
    send(is_second ? SIGKILL : signal);
    if (!kill_at_) kill_at_ = Clock::now() + job_.grace;
  }

  void send(int signal) const {
    for (const Child& child : children_)
      if (child.is_running) kill(-child.pid, signal);
  }

  const LocalRanks& job_;
  const Folder folder_;
  const Signals signals_;
  std::vector<Child> children_;
  std::optional<Failure> failure_;            // of the first rank that failed
  std::optional<int> signal_;                 // that this process got
  std::optional<Clock::time_point> kill_at_;  // nobody waits for a rank that outlives this
};

}  // namespace

Result<int> run_local_ranks(const LocalRanks& job) { return Launcher(job).run(); }

}  // namespace plimsoll::runtime
