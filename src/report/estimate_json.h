// The JSON form of an estimate, schema "plimsoll.estimate/1" (docs/json.md): bytes, integers, stable keys.
#pragma once

#include <string>

#include "estimate/improvements.h"

namespace plimsoll {

std::string estimate_json(const Estimate& estimate, const Improvements& improvements);

}  // namespace plimsoll
