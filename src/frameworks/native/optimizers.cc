#include "frameworks/native/optimizers.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace plimsoll::native {
namespace {

constexpr std::array<OptimizerRow, 4> kRows = {{
    {.kind = OptimizerKind::kAdamW, .update = OpKind::kAdamwUpdate, .states = 2},  // first, second moment
    {.kind = OptimizerKind::kSgd, .update = OpKind::kSgdUpdate, .states = 0},
    {.kind = OptimizerKind::kSgdMomentum, .update = OpKind::kSgdMomentumUpdate, .states = 1},
    {.kind = OptimizerKind::kLion, .update = OpKind::kLionUpdate, .states = 1},
}};

}  // namespace

const OptimizerRow& optimizer_row(OptimizerKind kind) {
  const auto* const found = std::ranges::find(kRows, kind, &OptimizerRow::kind);
  assert(found != kRows.end() && "an optimizer that framework native does not have");
  return *found;
}

}  // namespace plimsoll::native
