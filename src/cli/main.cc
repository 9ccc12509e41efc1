#include "cli/command_line.h"
#include "cli/estimate_command.h"
#include "cli/explain_command.h"
#include "cli/gpus_command.h"
#include "cli/models_command.h"
#include "cli/validate_command.h"

int main(int argc, char** argv) {
  using namespace plimsoll;
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_estimate_command());
  commands.push_back(make_explain_command());
  commands.push_back(make_models_command());
  commands.push_back(make_gpus_command());
  commands.push_back(make_validate_command());
  return run_command_line(argc, argv, std::move(commands));
}
