// `plimsoll explain MODEL`: who is alive at the peak, and how memory got there.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

std::unique_ptr<Command> make_explain_command();

}  // namespace plimsoll
