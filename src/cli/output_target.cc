#include "cli/output_target.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/read_file.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStandardOutput = "-";

std::optional<int> number_of(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return is_number ? std::optional(number) : std::nullopt;
}

// The process whose open descriptors the folder lists: /proc/PID/fd, /proc/PID/task/TID/fd, or a /dev/fd that
// is no link to one of them.
std::optional<int> process_of(const fs::path& folder) {
  std::error_code problem;
  const fs::path real = fs::canonical(folder.empty() ? fs::path(".") : folder, problem);
  if (problem) return std::nullopt;
  if (real == "/dev/fd") return getpid();
  const std::vector<fs::path> parts(real.begin(), real.end());
  const bool is_process = parts.size() == 4, is_thread = parts.size() == 6 && parts[3] == "task";
  if ((!is_process && !is_thread) || parts[1] != "proc" || parts.back() != "fd") return std::nullopt;
  return number_of(parts[2].string());
}

std::optional<OutputTarget> open_elsewhere(const fs::path& path) {
  const std::optional<int> descriptor = number_of(path.filename().string());
  if (!descriptor) return std::nullopt;
  const std::optional<int> process = process_of(path.parent_path());
  if (!process) return std::nullopt;
  if (*process != getpid()) return OutputTarget{.kind = OutputTarget::Kind::kInPlace, .path = path};
  return OutputTarget{.kind = OutputTarget::Kind::kDescriptor, .path = path, .descriptor = descriptor};
}

}  // namespace

Error unwritable(const std::string& path, int why) {
  const std::string reason = why != 0 ? std::string(": ") + std::strerror(why) : std::string();
  return {.position = {.file = path == kStandardOutput ? "standard output" : shown_path(path)},
          .message = "can't be written" + reason,
          .expected = "a file to write to"};
}

std::string path_of_output(const std::string& name) { return name == kStandardOutput ? "/dev/stdout" : name; }

Result<OutputTarget> find_output_target(const std::string& path) {
  constexpr int kMostLinks = 40;  // Linux's own bound
  std::error_code problem;
  fs::path target = path_of_output(path);
  for (int i = 0; i <= kMostLinks; ++i) {
    if (auto found = open_elsewhere(target)) return *found;
    if (!fs::is_symlink(target, problem)) {
      const bool is_file = !fs::exists(target, problem) || fs::is_regular_file(target, problem);
      return OutputTarget{.kind = is_file ? OutputTarget::Kind::kFile : OutputTarget::Kind::kInPlace,
                          .path = target};
    }
    const fs::path next = fs::read_symlink(target, problem);
    if (problem) return fail(unwritable(path, problem.value()));
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return fail(unwritable(path, ELOOP));
}

}  // namespace plimsoll
