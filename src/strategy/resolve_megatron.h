#pragma once

#include "strategy/resolve.h"

namespace plimsoll {

// resolve() of framework megatron.
Result<ResolvedJob> resolve_megatron(const Job& job, const Architecture& architecture, const GpuFacts& gpu);

}  // namespace plimsoll
