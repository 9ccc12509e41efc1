#include "runtime/resident_memory.h"

#include <fstream>
#include <string>

namespace plimsoll::runtime {

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream status("/proc/self/status");
  std::string key, unit;
  for (std::string line; std::getline(status, line);) {
    const auto read = [&](std::string_view name, Bytes& to) {
      if (line.starts_with(name)) to = kKiB * std::stoll(line.substr(name.size()));
    };
    read("VmRSS:", memory.now);
    read("VmHWM:", memory.peak);
  }
  return memory;
}

}  // namespace plimsoll::runtime
