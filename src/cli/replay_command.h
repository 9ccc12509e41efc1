// `plimsoll replay SNAPSHOT`: what held memory in a recorded run, what fragmentation cost, and what other
// allocator settings would have made of it.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

std::unique_ptr<Command> make_replay_command();

}  // namespace plimsoll
