#include "program/passes/recompute.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {
namespace {

Result<std::vector<OpKind>> kept_kinds(const std::vector<std::string>& names) {
  std::vector<OpKind> kinds;
  for (const std::string& name : names) {
    if (name == "sdpa") {
      kinds.insert(kinds.end(),
                   {OpKind::kFlashAttention, OpKind::kEfficientAttention, OpKind::kCudnnAttention,
                    OpKind::kFlashAttentionPackage, OpKind::kCpuFlashAttention});
      continue;
    }
    const size_t before = kinds.size();
    for (OpKind kind : all_op_kinds())  // every overload that makes a tensor of its own
      if (class_of(kind) != OpClass::kInPlace && aten_name_of(kind).starts_with("aten::" + name + "."))
        kinds.push_back(kind);
    if (kinds.size() == before)
      return fail({.position = {.key = "recompute.kept_ops"},
                   .message = fmt::format("unknown op \"{}\"", name),
                   .expected = "the name of an ATen op without overload, such as mm, or sdpa"});
  }
  return kinds;
}

// A policy that names an op which never runs keeps nothing of it.
void note_absent_ops(Program& forward, const Recompute& recompute) {
  if (recompute.kept_ops == Recompute{}.kept_ops) return;
  for (const std::string& name : recompute.kept_ops) {
    const auto kinds = kept_kinds({name});
    const auto is_kept = [&](const Op& op) { return std::ranges::find(*kinds, op.kind) != kinds->end(); };
    if (kinds && std::ranges::none_of(forward.ops, is_kept))
      forward.notes.push_back(fmt::format("recompute.kept_ops: {} does not occur in this forward", name));
  }
}

}  // namespace

Result<void> mark_recompute(Program& forward, const Recompute& recompute) {
  if (recompute.kind == RecomputeKind::kNone) return {};
  std::vector<OpKind> kept;
  if (recompute.kind == RecomputeKind::kSelective) {
    PLIMSOLL_TRY(kinds, kept_kinds(recompute.kept_ops));
    kept = std::move(kinds);
    note_absent_ops(forward, recompute);
  }
  int64_t block = 0;
  for (Region& region : forward.regions) {
    if (region.kind != RegionKind::kBlock) continue;
    const bool is_chosen = recompute.kind != RecomputeKind::kEveryNth || block % recompute.every_nth == 0;
    ++block;
    if (!is_chosen) continue;
    region.checkpoint = recompute.kind == RecomputeKind::kSelective ? Checkpoint::kSelective
                        : recompute.is_reentrant                    ? Checkpoint::kReentrant
                                                                    : Checkpoint::kNonReentrant;
    region.kept = kept;
  }
  return {};
}

}  // namespace plimsoll
