// Peaks of a program on an allocator that gives every request its own bytes, as LibTorch's does on a CPU.
//
//   for (const ExactPeak& peak : exact_peaks(program)) peak.device().total;   // by phase of the schedule
//
// By the categories that the program states, each tier apart: their peaks may be at different moments.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/units.h"
#include "program/program.h"

namespace plimsoll {

// Of one tier, where `total` was highest first.
struct TierBytes {
  std::array<Bytes, kCategoryCount> categories{};
  Bytes total;

  friend bool operator==(const TierBytes&, const TierBytes&) = default;
};
using BytesByTier = std::array<TierBytes, kTierCount>;

struct ExactPeak {
  std::string phase;
  BytesByTier tiers{};

  const TierBytes& of(Tier tier) const { return tiers.at(static_cast<size_t>(tier)); }
  const TierBytes& device() const { return of(Tier::kGpu); }
};

// One for each step of the schedule, also where consecutive ones have one name.
std::vector<ExactPeak> exact_peaks(const Program& program);

}  // namespace plimsoll
