// `plimsoll compare A B`: two snapshots, or an estimate and a snapshot, side by side.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

std::unique_ptr<Command> make_compare_command();

}  // namespace plimsoll
