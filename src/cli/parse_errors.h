// What was wrong with a command line, in the words of its user.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace plimsoll {

struct KnownCommand {
  std::string name;
  std::vector<std::string> options;  // "--gpu"
};

// Of arguments (without the program's name) that a parser refused because it did not expect some of them.
// `reason`: the parser's own words, for what none of these is: a command or an option that there isn't, an
// argument too many.
Error unexpected_arguments(const std::vector<std::string>& arguments,
                           const std::vector<KnownCommand>& commands, const std::string& reason);

}  // namespace plimsoll
