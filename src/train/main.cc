#include <csignal>

#include "cli/command_line.h"
#include "train/train_command.h"

int main(int argc, char** argv) {
  using namespace plimsoll;
  std::signal(SIGXFSZ, SIG_IGN);  // `ulimit -f`: writing fails instead, with a message
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_train_command());
  return run_command_line(argc, argv, std::move(commands));
}
