// A file that a command writes: whole or not at all. The text goes to a file of its own, which takes the
// target's name when all of it is written, so that a run that is killed leaves no half of an answer under
// that name. A link is followed: what it leads to is replaced, not the link. An open descriptor, such as
// /dev/stdout, a pipe and a device are written as they are (cli/output_target.h). "-" is standard output too,
// and has it alone: what the command prints goes to standard error then.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll {

Result<void> write_output_file(const std::string& path, const std::function<void(std::ostream&)>& write);

// An option that names a file to write.
struct OutputOption {
  std::string_view name;  // "--trace"
  const std::optional<std::string>& path;
};
// Errors: two of them would write the same file, one would write a file that the command reads, or replace
// the file that standard output goes to. Inputs that are no path of a file are passed over.
Result<void> check_outputs(const std::vector<OutputOption>& outputs, const std::vector<std::string>& inputs);
// Where the command's own answer goes.
std::FILE* stream_beside(const std::vector<OutputOption>& outputs);

}  // namespace plimsoll
