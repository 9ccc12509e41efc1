// Source: torchtitan 0.1.0 and 0.2.2, models/llama3/infra/parallelize.py, apply_fsdp.
#include "frameworks/torchtitan/sharding.h"

namespace plimsoll::torchtitan {
namespace {

using pytorch::ShardingPlan;
using pytorch::ShardingUnit;

// Blocks and root, which is always given back after the forward. By default the last block isn't, as the
// backward would gather it at once.
void reshard_as_in_010(ReshardPolicy policy, ShardingPlan& plan) {
  for (ShardingUnit& unit : plan.units) unit.reshards_after_forward = policy != ReshardPolicy::kNever;
  if (policy == ReshardPolicy::kDefault) plan.units.back().reshards_after_forward = false;
  plan.units.front().reshards_after_forward = true;
}

// The embedding is a unit of its own, last norm and head together one that only "always" gives back; the root
// is left without parameters.
void reshard_as_in_022(ReshardPolicy policy, ShardingPlan& plan) {
  for (ShardingUnit& unit : plan.units) unit.reshards_after_forward = policy != ReshardPolicy::kNever;
  plan.units[*plan.head].reshards_after_forward = policy == ReshardPolicy::kAlways;
}

// Those that Float8Linear stands for: the norms' weights have one dim. The head is left out (filter_fqns).
std::vector<size_t> linears_of_blocks(const Architecture& architecture) {
  std::vector<size_t> linears;
  for (size_t i = 0; i < architecture.parameters.size(); ++i)
    if (architecture.parameters[i].layer && architecture.parameters[i].shape.size() == 2)
      linears.push_back(i);
  return linears;
}

}  // namespace

ShardingPlan sharding_plan(const Architecture& architecture, const ResolvedJob& job) {
  const bool has_one_root = job.torchtitan.release == TorchtitanRelease::k010;
  ShardingPlan plan;
  const size_t blocks = architecture.layers.size();
  plan.units.resize(1 + blocks);
  if (!has_one_root) {
    plan.embedding = blocks + 1;
    plan.head = blocks + 2;
    plan.units.resize(blocks + 3);
  }
  for (size_t i = 0; i < architecture.parameters.size(); ++i) {
    const ParameterTensor& p = architecture.parameters[i];
    size_t unit = 0;
    if (p.layer)
      unit = 1 + static_cast<size_t>(*p.layer);
    else if (!has_one_root)
      unit = p.name.starts_with("tok_embeddings.") ? *plan.embedding : *plan.head;
    plan.units[unit].members.push_back(i);
  }
  for (ShardingUnit& unit : plan.units) sort_members(architecture, unit);
  if (job.torchtitan.gathers_float8) plan.gathered_in_float8 = linears_of_blocks(architecture);
  if (has_one_root)
    reshard_as_in_010(job.torchtitan.reshard_after_forward, plan);
  else
    reshard_as_in_022(job.torchtitan.reshard_after_forward, plan);
  return plan;
}

}  // namespace plimsoll::torchtitan
