// The page that `plimsoll estimate` prints: verdict, the ladder of categories in each phase, what would help,
// what was assumed, notes. Plain text; bytes in GiB.
#pragma once

#include <string>

#include "estimate/improvements.h"

namespace plimsoll {

std::string estimate_page(const Estimate& estimate, const Improvements& improvements);

}  // namespace plimsoll
