// apply_fsdp: what torchtitan makes a unit of FSDP2, and which units stay gathered after their forward.
#pragma once

#include "frameworks/pytorch/sharding_plan.h"

namespace plimsoll::torchtitan {

// `architecture`: as torchtitan has it (architecture.h).
pytorch::ShardingPlan sharding_plan(const Architecture& architecture, const ResolvedJob& job);

}  // namespace plimsoll::torchtitan
