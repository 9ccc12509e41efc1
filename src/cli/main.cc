#include <malloc.h>

#include "cli/command_line.h"
#include "cli/compare_command.h"
#include "cli/estimate_command.h"
#include "cli/explain_command.h"
#include "cli/gpus_command.h"
#include "cli/models_command.h"
#include "cli/replay_command.h"
#include "cli/train_elsewhere.h"
#include "cli/validate_command.h"

namespace {

// Programs are built and dropped one after another: giving their pages back to the system each time costs
// more than building them.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kNever = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  using namespace plimsoll;
  if (is_for_train(argc, argv)) {
    const Error error = become_train(argv);
    print_error(error);
    return exit_code_of(error);
  }
  keep_freed_memory();
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_estimate_command());
  commands.push_back(make_explain_command());
  commands.push_back(make_replay_command());
  commands.push_back(make_compare_command());
  commands.push_back(make_train_elsewhere());
  commands.push_back(make_models_command());
  commands.push_back(make_gpus_command());
  commands.push_back(make_validate_command());
  return run_command_line(argc, argv, std::move(commands));
}
