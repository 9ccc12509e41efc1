#include "program/op_table.h"

#include <array>

#include "program/backward_rules.h"

namespace plimsoll {
namespace {

#define X(kind, name, cls) +1
constexpr size_t kOpCount = 0 PLIMSOLL_OPS(X);
#undef X
using Table = std::array<OpRow, kOpCount>;
Table* being_built = nullptr;

const Table& table() {
  static const Table built = [] {
    Table rows;
    being_built = &rows;
    const SetRow set = [](OpKind kind, OpRow row) {
      row.is_differentiable = true;
      (*being_built)[static_cast<size_t>(kind)] = row;
    };
    add_view_rows(set);
    add_pointwise_rows(set);
    add_reduction_rows(set);
    add_indexing_rows(set);
    add_network_rows(set);
    // Ops that carry gradients but have no rule yet: differentiate refuses them by name.
    for (OpKind kind :
         {OpKind::kExp, OpKind::kAbs, OpKind::kSin, OpKind::kCos, OpKind::kCumsum, OpKind::kRepeat,
          OpKind::kPad, OpKind::kTril, OpKind::kPowTensor, OpKind::kSafeSoftmax})
      if (rows[static_cast<size_t>(kind)].backward == nullptr)
        rows[static_cast<size_t>(kind)].is_differentiable = true;
    return rows;
  }();
  return built;
}

}  // namespace

const OpRow& op_row(OpKind kind) { return table()[static_cast<size_t>(kind)]; }

}  // namespace plimsoll
