// A file that a command writes: whole or not at all. The text goes to a file of its own beside it, which
// takes its name when all of it is written, so that a run that is killed leaves no half of an answer under
// that name. A link is followed: what it leads to is replaced, not the link. What is no regular file, such as
// /dev/stdout, is written as it is.
#pragma once

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
// Errors: two of them would write the same file.
Result<void> check_outputs_differ(const std::vector<OutputOption>& outputs);

}  // namespace plimsoll
