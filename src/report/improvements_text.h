// What would help, for people: the table of changes, and the cheapest way to make the job fit.
#pragma once

#include <string>

#include "estimate/improvements.h"

namespace plimsoll {

// "  cheapest way to fit: ..."; empty for a job that fits.
std::string cure_text(const Estimate& estimate, const Improvements& found);
std::string improvements_text(const Estimate& estimate, const Improvements& found);

}  // namespace plimsoll
