// Two memory profiles side by side, biggest differences first: two snapshots, or a prediction and one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "report/compared_modules.h"

namespace plimsoll {

// What was allocated at the peak, under names that both sides may know.
struct MemoryProfile {
  std::string name;                                  // file
  std::optional<Bytes> allocated, active, reserved;  // peaks
  std::map<std::string, Bytes> categories;           // "parameters": of the allocated peak
  std::map<std::string, Bytes> places;               // line of code; empty where not known
  ModuleKnowledge modules;
  std::vector<std::string> notes;
};

std::string compare_page(const MemoryProfile& a, const MemoryProfile& b, size_t most_lines);
std::string compare_json(const MemoryProfile& a, const MemoryProfile& b);

}  // namespace plimsoll
