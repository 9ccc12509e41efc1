// The fields of the section [torchtitan], a part of job_fields().
#pragma once

#include <vector>

#include "strategy/field.h"

namespace plimsoll {

std::vector<Field> torchtitan_fields();

}  // namespace plimsoll
