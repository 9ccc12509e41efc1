// Peaks of a program on an allocator that gives every request its own bytes, as LibTorch's does on a CPU.
//
//   for (const ExactPeak& peak : exact_peaks(program)) peak.categories[...]   // by phase of the schedule
//
// Bytes of the tier kGpu (the device, whichever it is), by the categories that the program states.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/units.h"
#include "program/program.h"

namespace plimsoll {

struct ExactPeak {
  std::string phase;
  std::array<Bytes, kCategoryCount> categories{};  // where `total` was highest first
  Bytes total;
};

// One for each step of the schedule, also where consecutive ones have one name.
std::vector<ExactPeak> exact_peaks(const Program& program);

}  // namespace plimsoll
