// What the path of an output leads to: links are followed even where the last leads nowhere yet, as open()
// does, but not through a name of an open descriptor.
//
// /dev/stdout, /dev/fd/N and /proc/self/fd/N name what this process has open, be it a pipe or a file in which
// a position has been reached. As links they would lead to the file itself, and to replace it or to open it
// anew would lose what else is written through the descriptor. Source: proc(5).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"

namespace plimsoll {

struct OutputTarget {
  enum class Kind : uint8_t {
    kFile,        // a regular file, or nothing yet: may be replaced
    kDescriptor,  // open in this process
    kInPlace      // a pipe with a name, a device, a file that another process has open
  };
  Kind kind = Kind::kFile;
  std::filesystem::path path;     // behind the links
  std::optional<int> descriptor;  // of kDescriptor
};

// As options name it: "-" is /dev/stdout, as it is standard input where a file is read.
std::string path_of_output(const std::string& name);

// Errors: links without end.
Result<OutputTarget> find_output_target(const std::string& path);

Error unwritable(const std::string& path, int why);  // errno; 0: not known

}  // namespace plimsoll
