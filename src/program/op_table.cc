#include "program/op_table.h"

#include <array>

#include "program/backward_rules.h"

namespace plimsoll {
namespace {

#define X(kind, name, cls) +1
constexpr size_t kOpCount = 0 PLIMSOLL_OPS(X);
#undef X
using Table = std::array<OpRow, kOpCount>;

// Ops that carry gradients in PyTorch and have no rule here: a program that needs one is refused by name.
constexpr OpKind kWithoutRule[] = {
    OpKind::kAbs,          OpKind::kSin,        OpKind::kCos,           OpKind::kLog,
    OpKind::kLog1p,        OpKind::kLerp,       OpKind::kTril,          OpKind::kPowTensor,
    OpKind::kScalarPow,    OpKind::kPolar,      OpKind::kMin,           OpKind::kCumsum,
    OpKind::kScatter,      OpKind::kScatterAdd, OpKind::kIndexPut,      OpKind::kIndexPutInPlace,
    OpKind::kCopyInPlace,  OpKind::kVectorNorm, OpKind::kSubInPlace,    OpKind::kExpInPlace,
    OpKind::kTeGemm,       OpKind::kIndexAdd,   OpKind::kMaskedScatter, OpKind::kAllToAll,
    OpKind::kTeGroupedGemm};

const Table& table() {
  static const Table built = [] {
    Table rows;
    const SetRow set = [&](OpKind kind, OpRow row) {
      row.is_differentiable = true;
      rows[static_cast<size_t>(kind)] = row;
    };
    add_view_rows(set);
    add_pointwise_rows(set);
    add_reduction_rows(set);
    add_indexing_rows(set);
    add_network_rows(set);
    add_native_rows(set);
    add_megatron_rows(set);
    add_megatron_expert_rows(set);
    for (OpKind kind : kWithoutRule) set(kind, {});
    return rows;
  }();
  return built;
}

}  // namespace

const OpRow& op_row(OpKind kind) { return table()[static_cast<size_t>(kind)]; }

}  // namespace plimsoll
