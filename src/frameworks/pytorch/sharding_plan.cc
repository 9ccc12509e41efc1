#include "frameworks/pytorch/sharding_plan.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace plimsoll::pytorch {
namespace {

// Whether the parameter lies below the module that has `other` as its own, deeper than that one.
bool is_below_owner(std::string_view parameter, std::string_view other) {
  const std::string_view owner = other.substr(0, other.rfind('.') + 1);
  return parameter.starts_with(owner) && parameter.find('.', owner.size()) != std::string_view::npos;
}

}  // namespace

void sort_members(const Architecture& architecture, ShardingUnit& unit) {
  std::ranges::sort(unit.members, [&](size_t x, size_t y) {
    const std::string &a = architecture.parameters[x].name, &b = architecture.parameters[y].name;
    if (is_below_owner(a, b) != is_below_owner(b, a)) return is_below_owner(a, b);
    return x < y;
  });
}

ShardingPlan transformers_plan(const Architecture& architecture, const ResolvedJob& job) {
  ShardingPlan plan;
  plan.units.resize(1 + architecture.layers.size());
  const auto add_unit = [&] {
    plan.units.emplace_back();
    return plan.units.size() - 1;
  };
  if (job.fsdp2.split_head && !architecture.is_tied) {
    plan.embedding = add_unit();
    plan.head = add_unit();
  }
  for (size_t i = 0; i < architecture.parameters.size(); ++i) {
    const ParameterTensor& p = architecture.parameters[i];
    size_t unit = 0;
    if (p.layer)
      unit = 1 + static_cast<size_t>(*p.layer);
    else if (plan.embedding && i == 0)
      unit = *plan.embedding;
    else if (plan.head && p.name == "lm_head.weight")
      unit = *plan.head;
    plan.units[unit].members.push_back(i);
  }
  for (ShardingUnit& unit : plan.units) {
    sort_members(architecture, unit);
    unit.reshards_after_forward = job.fsdp2.reshard_after_forward;
  }
  plan.units[0].reshards_after_forward =
      job.fsdp2.reshard_after_forward && job.fsdp2.root_reshard_after_forward.value_or(false);
  return plan;
}

}  // namespace plimsoll::pytorch
