// The fields of the sections [train] and [data], a part of job_fields().
#pragma once

#include <vector>

#include "strategy/field.h"

namespace plimsoll {

std::vector<Field> train_fields();
std::vector<Field> data_fields();

}  // namespace plimsoll
