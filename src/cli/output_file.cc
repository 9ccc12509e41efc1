#include "cli/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

Error unwritable(const std::string& path) {
  const std::string why = errno != 0 ? std::string(": ") + std::strerror(errno) : std::string();
  return {.position = {.file = path}, .message = "can't be written" + why, .expected = "a file to write to"};
}

Result<void> write_stream(const std::string& path, const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (!file) return fail(unwritable(path));
  write(file);
  file.close();
  if (!file) return fail(unwritable(path));
  return {};
}

}  // namespace

Result<void> write_output_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::error_code problem;
  if (fs::exists(path, problem) && !fs::is_regular_file(path, problem)) return write_stream(path, write);
  const std::string partial = path + ".partial";
  if (auto written = write_stream(partial, write); !written) {
    fs::remove(partial, problem);
    return fail({.position = {.file = path},
                 .message = written.error().message,
                 .expected = written.error().expected});
  }
  fs::rename(partial, path, problem);
  if (!problem) return {};
  return fail({.position = {.file = path}, .message = "can't be written: " + problem.message()});
}

}  // namespace plimsoll
