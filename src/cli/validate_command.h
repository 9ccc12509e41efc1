// `plimsoll validate [FILE...]`: the accuracy ledger.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

std::unique_ptr<Command> make_validate_command();

}  // namespace plimsoll
