// `plimsoll train JOB.toml`: runs the job's program on this machine.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

std::unique_ptr<Command> make_train_command();

}  // namespace plimsoll
