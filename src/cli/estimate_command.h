// `plimsoll estimate MODEL`: does the job fit, and where do its bytes go.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

std::unique_ptr<Command> make_estimate_command();

}  // namespace plimsoll
