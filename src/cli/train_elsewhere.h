// `plimsoll train` is a program of its own, plimsoll-train, since it needs LibTorch. This one lists it among
// its commands, and becomes it where it lies beside.
#pragma once

#include <memory>

#include "cli/command.h"

namespace plimsoll {

// "train ..." and "help train".
bool is_for_train(int argc, const char* const* argv);

// Returns only where there is no such program beside this one, or it can't be started: why.
Error become_train(char* const* argv);

// For the list of commands and what is meant by a word near to it.
std::unique_ptr<Command> make_train_elsewhere();

}  // namespace plimsoll
