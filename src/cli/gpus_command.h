// `plimsoll gpus`: the catalog of GPUs and clusters.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

std::unique_ptr<Command> make_gpus_command();

}  // namespace plimsoll
