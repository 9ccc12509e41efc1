// The JSON form of an estimate, schema "plimsoll.estimate/1" (docs/json.md): bytes, integers, stable keys.
#pragma once

#include <string>

#include "estimate/improvements.h"

namespace plimsoll {

// REQUIRES run.timeline.events kept.
std::string estimate_json(const EstimateRun& run, const Improvements& improvements);

}  // namespace plimsoll
