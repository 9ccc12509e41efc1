// Parses the command line, runs the command that it names, prints errors. The only user of CLI11.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"

namespace plimsoll {

// The exit code. Nothing is thrown.
int run_command_line(int argc, const char* const* argv, std::vector<std::unique_ptr<Command>> commands);

void print_error(const Error& error);  // on standard error
int exit_code_of(const Error& error);

}  // namespace plimsoll
