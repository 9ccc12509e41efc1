// Which choices of a job have a recipe in this framework. What has none is refused by name before anything is
// built, so that no choice passes silently.
#pragma once

#include "base/result.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

// Quick: builds nothing. Errors: the first choice without a recipe, with what is supported.
Result<void> check_supported(const Architecture& architecture, const ResolvedJob& job);

}  // namespace plimsoll::pytorch
