// `plimsoll models`: the presets, or what a configuration holds.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

std::unique_ptr<Command> make_models_command();

}  // namespace plimsoll
