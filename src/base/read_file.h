// A whole file as text, of a path that a user names.
//
//   PLIMSOLL_TRY(text, read_file("rows.csv", {.most_bytes = 1 << 20, .expected = "a table"}));
//
// Errors: a folder; what is no regular file, since a pipe may wait for ever and a device never end; a file
// longer than `most_bytes`, of which no more than that is read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace plimsoll {

struct ReadFileOptions {
  size_t most_bytes = 0;
  std::string expected;  // what the file should be, for the errors
};

// As messages show it: an empty one, too, is seen.
std::string shown_path(const std::filesystem::path& path);

Result<std::string> read_file(const std::filesystem::path& path, const ReadFileOptions& options);

}  // namespace plimsoll
