// How much memory this process may get: the machine's, or a limit on its control group or its address space.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/units.h"

namespace plimsoll::runtime {

struct MachineMemory {
  Bytes total;         // with swap
  Bytes available;     // without taking from other processes, with swap; at most `total`
  std::string source;  // what sets `total`: "RAM and swap", "the control group's limit", "ulimit -v"
};

// Empty where there is no /proc. `root` is "/" but in tests.
// Source: proc(5), meminfo; Documentation/admin-guide/cgroup-v2.rst, memory.max and memory.current.
// Does not model: limits of cgroup v1; groups above the process's own.
std::optional<MachineMemory> machine_memory(const std::filesystem::path& root = "/");

}  // namespace plimsoll::runtime
