// The fields of the section [offload], a part of job_fields().
#pragma once

#include <vector>

#include "strategy/field.h"

namespace plimsoll {

std::vector<Field> offload_fields();

}  // namespace plimsoll
