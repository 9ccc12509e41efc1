// How fully_shard was applied to a model: which parameters form a unit that is gathered and given back as
// one, and which units stay gathered after their forward.
//
//   ShardingPlan plan = transformers_plan(architecture, job);
//   plan.units[0];                       // the root: what no other unit holds
//   plan.units[1 + layer];               // the blocks
//
// Invariant: every parameter is a member of one unit; a unit without members takes part in nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

struct ShardingUnit {
  std::vector<size_t> members;  // indices into Architecture::parameters, as _get_managed_modules orders them
  bool reshards_after_forward = true;
};

struct ShardingPlan {
  std::vector<ShardingUnit> units;  // the root, the blocks, then those of embedding and head
  std::optional<size_t> embedding, head;
  std::vector<size_t> gathered_in_float8;  // parameters; all others are gathered in the compute dtype
};

// fully_shard on each block, then on the root; embedding and head as units of their own where the job splits
// them off.
ShardingPlan transformers_plan(const Architecture& architecture, const ResolvedJob& job);

// What lies below a module comes before the module's own parameters. Source: _get_managed_modules in
// torch/distributed/fsdp/_fully_shard/_fsdp_init.py.
void sort_members(const Architecture& architecture, ShardingUnit& unit);

}  // namespace plimsoll::pytorch
