#include "cli/train_elsewhere.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace plimsoll {
namespace {

constexpr std::string_view kProgram = "plimsoll-train";

class TrainElsewhere final : public Command {
 public:
  std::string_view name() const override { return "train"; }
  std::string_view summary() const override {
    return "Trains a model on this machine with the plan that estimate prices";
  }
  std::vector<Argument> arguments() override { return {}; }
  Result<int> run() override {
    return fail({.message = "train's options stand after it", .expected = "plimsoll train JOB"});
  }
};

}  // namespace

bool is_for_train(int argc, const char* const* argv) {
  const auto is = [&](int i, std::string_view word) { return argc > i && word == argv[i]; };
  return is(1, "train") || (is(1, "help") && is(2, "train"));
}

Error become_train(char* const* argv) {
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const std::string program = (self.parent_path() / kProgram).string();
  execv(program.c_str(), argv);
  return {.position = {.file = program},
          .message = fmt::format("can't be started: {}", std::strerror(errno)),
          .expected = "the program of `plimsoll train`, which needs LibTorch",
          .hint = "./plimsoll train of a checkout installs LibTorch and builds it (docs/runtime.md)"};
}

std::unique_ptr<Command> make_train_elsewhere() { return std::make_unique<TrainElsewhere>(); }

}  // namespace plimsoll
