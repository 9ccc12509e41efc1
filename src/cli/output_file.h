// A file that a command writes: whole or not at all. The text goes to FILE.partial, which takes FILE's name
// when all of it is written, so that a run that is killed leaves no half of an answer under that name. What
// is no regular file, such as /dev/stdout, is written as it is.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "base/result.h"

namespace plimsoll {

Result<void> write_output_file(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace plimsoll
