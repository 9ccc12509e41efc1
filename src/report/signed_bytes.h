#pragma once

#include <fmt/format.h>

#include <string>

#include "base/units.h"

namespace plimsoll {

// "+1.25 GiB", "-0.011 GiB", "0".
inline std::string signed_gib_text(Bytes change) {
  if (change.value == 0) return "0";
  return fmt::format("{}{}", change.value > 0 ? "+" : "", to_gib_text(change));
}

// The same in the unit that fits.
inline std::string signed_text(Bytes change) {
  if (change.value == 0) return "0";
  return fmt::format("{}{}", change.value > 0 ? "+" : "", to_text(change));
}

}  // namespace plimsoll
