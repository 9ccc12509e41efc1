// The fields of the section [routing], a part of job_fields().
#pragma once

#include <vector>

#include "strategy/field.h"

namespace plimsoll {

std::vector<Field> routing_fields();

}  // namespace plimsoll
