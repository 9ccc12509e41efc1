#include "runtime/machine_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace plimsoll::runtime {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> number(std::string_view text) {
  const size_t first = text.find_first_of("0123456789");
  if (first == std::string_view::npos) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + first, text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// The folder of the process's group: "0::/user.slice/..." in /proc/self/cgroup.
fs::path group_of(const fs::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/"))
      return root / "sys/fs/cgroup" / line.substr(std::string_view("0::/").size());
  return root / "sys/fs/cgroup";
}

void take(MachineMemory& memory, Bytes limit, Bytes used, std::string source) {
  if (limit >= memory.total) return;
  memory = {.total = limit,
            .available = std::min(memory.available, std::max(limit - used, Bytes{})),
            .source = std::move(source)};
}

}  // namespace

std::optional<MachineMemory> machine_memory(const fs::path& root) {
  Bytes ram, available, swap, free_swap;
  std::ifstream info(root / "proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    const auto read = [&](std::string_view name, Bytes& to) {
      if (line.starts_with(name)) to = kKiB * number(line).value_or(0);
    };
    read("MemTotal:", ram);
    read("MemAvailable:", available);
    read("SwapTotal:", swap);
    read("SwapFree:", free_swap);
  }
  if (ram == Bytes{}) return std::nullopt;
  MachineMemory memory{.total = ram + swap, .available = available + free_swap, .source = "RAM and swap"};
  const fs::path group = group_of(root);
  if (const auto limit = number(first_line(group / "memory.max")))  // "max": none
    take(memory, Bytes{*limit}, Bytes{number(first_line(group / "memory.current")).value_or(0)},
         "the control group's limit");
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
      space.rlim_cur < static_cast<rlim_t>(memory.total.value))
    take(memory, Bytes{static_cast<int64_t>(space.rlim_cur)}, {}, "ulimit -v");
  return memory;
}

}  // namespace plimsoll::runtime
